"""The intermediate representation: a kernel as instructions, whether it was read from PTX or from machine code."""
