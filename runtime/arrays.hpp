// CUDA arrays, as copies and texture objects see them.
#pragma once

#include "connection.hpp"

namespace perfmodel {

// Extents in texels, none of them 0; slices are those of a third axis, layers or faces.
struct Array {
    char *data = nullptr;
    cudaChannelFormatDesc format{};
    cudaExtent extent{};
    unsigned flags = 0;
    size_t width = 0, height = 0, slices = 0;
    size_t texel_bytes() const;
};
// Null where it is none.
const Array *array_of(cudaArray_const_t handle);

}  // namespace perfmodel
