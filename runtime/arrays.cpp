// CUDA arrays: texels without gaps in device memory, which takes as much as the hardware's tiles do.
#include "arrays.hpp"

namespace perfmodel {

namespace {

constexpr size_t TILE_WIDTH = 64, TILE_ROWS = 8;

std::map<const void *, Array> &arrays() {
    static auto *made = new std::map<const void *, Array>;  // outlives static destructors
    return *made;
}

size_t tiled_bytes(const Array &array) {
    size_t across = (array.width * array.texel_bytes() + TILE_WIDTH - 1) / TILE_WIDTH * TILE_WIDTH;
    size_t rows = (array.height + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    return across * rows * array.slices;
}

bool known_texels(const cudaChannelFormatDesc &format) {
    int bits[4] = {format.x, format.y, format.z, format.w}, channels = 0;
    while (channels < 4 && bits[channels]) ++channels;
    for (int k = 0; k < 4; ++k)
        if (bits[k] != (k < channels ? bits[0] : 0)) return false;
    bool whole = bits[0] == 8 || bits[0] == 16 || bits[0] == 32;
    return whole && (channels == 1 || channels == 2 || channels == 4) && unsigned(format.f) <= cudaChannelFormatKindFloat &&
           !(format.f == cudaChannelFormatKindFloat && bits[0] == 8);
}

cudaError_t new_array(cudaArray_t *made, const cudaChannelFormatDesc *format, cudaExtent extent, unsigned flags) {
    Guard guard(lock());
    load_modules();
    if (!made || !format || !extent.width) return result(cudaErrorInvalidValue);
    if (sticky() != cudaSuccess) return sticky();
    if (!known_texels(*format)) return result(cudaErrorInvalidChannelDescriptor);
    bool layered = flags & cudaArrayLayered, cube = flags & cudaArrayCubemap;
    if (cube && (extent.width != extent.height || extent.depth % 6 || (!layered && extent.depth != 6)))
        return result(cudaErrorInvalidValue);
    Array array;
    array.format = *format;
    array.extent = extent;
    array.flags = flags;
    array.width = extent.width;
    array.height = std::max<size_t>(extent.height, 1);
    array.slices = std::max<size_t>(extent.depth, 1);
    array.data = static_cast<char *>(allocate(tiled_bytes(array), Kind::array));
    if (!array.data) return result(cudaErrorMemoryAllocation);
    arrays()[array.data] = array;
    *made = reinterpret_cast<cudaArray_t>(array.data);
    return result(cudaSuccess);
}

}  // namespace

size_t Array::texel_bytes() const { return size_t(format.x + format.y + format.z + format.w) / 8; }

const Array *array_of(cudaArray_const_t handle) {
    auto found = arrays().find(handle);
    return found == arrays().end() ? nullptr : &found->second;
}

}  // namespace perfmodel

using namespace perfmodel;

EXPORTED cudaError_t cudaMallocArray(
    cudaArray_t *made, const cudaChannelFormatDesc *format, size_t width, size_t height, unsigned flags) {
    return new_array(made, format, cudaExtent{width, height, 0}, flags);
}
EXPORTED cudaError_t cudaMalloc3DArray(
    cudaArray_t *made, const cudaChannelFormatDesc *format, cudaExtent extent, unsigned flags) {
    return new_array(made, format, extent, flags);
}
EXPORTED cudaError_t cudaFreeArray(cudaArray_t handle) {
    Guard guard(lock());
    if (!handle) return result(cudaSuccess);
    if (!array_of(handle)) return result(cudaErrorInvalidValue);
    wait_for_device();
    release(handle);
    arrays().erase(handle);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *format, cudaExtent *extent, unsigned *flags, cudaArray_t handle) {
    Guard guard(lock());
    const Array *array = array_of(handle);
    if (!array) return result(cudaErrorInvalidValue);
    if (format) *format = array->format;
    if (extent) *extent = array->extent;
    if (flags) *flags = array->flags;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *format, cudaArray_const_t handle) {
    Guard guard(lock());
    const Array *array = array_of(handle);
    if (!array || !format) return result(cudaErrorInvalidValue);
    *format = array->format;
    return result(cudaSuccess);
}
EXPORTED cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
    return cudaChannelFormatDesc{x, y, z, w, kind};
}

// ---- copies; columns of rows are in bytes

namespace {

cudaMemcpy3DParms to_array(cudaArray_t to, size_t column, size_t row, const void *from, size_t pitch, size_t width,
                           size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms p = {};
    const Array *array = array_of(to);
    size_t texel = array ? array->texel_bytes() : 1;
    p.dstArray = to;
    p.dstPos = cudaPos{column / texel, row, 0};
    p.srcPtr = cudaPitchedPtr{const_cast<void *>(from), pitch, width, height};
    p.extent = cudaExtent{width / texel, height, 1};
    p.kind = kind;
    return p;
}

cudaMemcpy3DParms from_array(void *to, size_t pitch, cudaArray_const_t from, size_t column, size_t row, size_t width,
                             size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms p = {};
    const Array *array = array_of(from);
    size_t texel = array ? array->texel_bytes() : 1;
    p.srcArray = const_cast<cudaArray_t>(from);
    p.srcPos = cudaPos{column / texel, row, 0};
    p.dstPtr = cudaPitchedPtr{to, pitch, width, height};
    p.extent = cudaExtent{width / texel, height, 1};
    p.kind = kind;
    return p;
}

// Texels one after the other, over the ends of rows.
cudaError_t linear_copy(cudaArray_const_t handle, size_t column, size_t row, void *there, size_t bytes, bool into) {
    Guard guard(lock());
    const Array *array = array_of(handle);
    if (!array) return result(cudaErrorInvalidValue);
    size_t begin = row * array->width * array->texel_bytes() + column;
    if (begin + bytes > array->width * array->texel_bytes() * array->height) return result(cudaErrorInvalidValue);
    return into ? cudaMemcpy(array->data + begin, there, bytes, cudaMemcpyDefault)
                : cudaMemcpy(there, array->data + begin, bytes, cudaMemcpyDefault);
}

}  // namespace

EXPORTED cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t column, size_t row, const void *from, size_t pitch,
                                         size_t width, size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms p = to_array(to, column, row, from, pitch, width, height, kind);
    return cudaMemcpy3D(&p);
}
EXPORTED cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t column, size_t row, const void *from, size_t pitch,
                                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    cudaMemcpy3DParms p = to_array(to, column, row, from, pitch, width, height, kind);
    return cudaMemcpy3DAsync(&p, stream);
}
EXPORTED cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t column, size_t row,
                                           size_t width, size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms p = from_array(to, pitch, from, column, row, width, height, kind);
    return cudaMemcpy3D(&p);
}
EXPORTED cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t column, size_t row,
                                                size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    cudaMemcpy3DParms p = from_array(to, pitch, from, column, row, width, height, kind);
    return cudaMemcpy3DAsync(&p, stream);
}
EXPORTED cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_column, size_t to_row, cudaArray_const_t from,
                                              size_t column, size_t row, size_t width, size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms p = from_array(nullptr, 0, from, column, row, width, height, kind);
    const Array *array = array_of(to);
    p.dstPtr = cudaPitchedPtr{};
    p.dstArray = to;
    p.dstPos = cudaPos{to_column / (array ? array->texel_bytes() : 1), to_row, 0};
    return cudaMemcpy3D(&p);
}
EXPORTED cudaError_t cudaMemcpyToArray(
    cudaArray_t to, size_t column, size_t row, const void *from, size_t bytes, cudaMemcpyKind) {
    return linear_copy(to, column, row, const_cast<void *>(from), bytes, true);
}
EXPORTED cudaError_t cudaMemcpyFromArray(
    void *to, cudaArray_const_t from, size_t column, size_t row, size_t bytes, cudaMemcpyKind) {
    return linear_copy(from, column, row, to, bytes, false);
}
EXPORTED cudaError_t cudaMemcpyToArrayAsync(
    cudaArray_t to, size_t column, size_t row, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpyToArray(to, column, row, from, bytes, kind);
}
EXPORTED cudaError_t cudaMemcpyFromArrayAsync(
    void *to, cudaArray_const_t from, size_t column, size_t row, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpyFromArray(to, from, column, row, bytes, kind);
}
