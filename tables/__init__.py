"""What computes the tables that the package ships and its pages show; nothing of it is needed to predict."""
