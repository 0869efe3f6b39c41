"""What generated code calls: arithmetic on whole arrays with the semantics of PTX."""
