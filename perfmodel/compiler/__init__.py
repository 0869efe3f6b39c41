"""Source to PTX, cubin and resources, kept in a disk cache."""
