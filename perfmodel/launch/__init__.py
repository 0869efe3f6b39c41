"""One launch or n of them: grid, block, arguments and buffers."""
