"""PTX matched to the machine code that the assembler made of it."""
