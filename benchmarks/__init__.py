"""How fast the program itself is: ``make bench``. Not a test; machines differ, so the table names the machine."""
