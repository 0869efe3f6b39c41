"""From CUDA source to PTX, cubin, resources and instruction mix, without a driver."""
