"""How the kernel cuts a layer: tiles of four levels, slabs of channels, and where a slab lies in shared memory."""
