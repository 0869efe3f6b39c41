"""Classes of blocks that provably do the same: values that differ between blocks are followed for all of them at once."""
