"""Translation of PTX instructions to Python source, one module for each group of instructions."""
