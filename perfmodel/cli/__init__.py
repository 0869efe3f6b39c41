"""The command line: thin functions that read options, call the library and print tables or JSON."""
