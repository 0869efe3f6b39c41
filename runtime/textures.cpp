// Texture and surface objects: handles that kernels get, and the arrays behind them, which are sent to the simulator.
#include "arrays.hpp"

namespace perfmodel {

namespace {

struct Object {
    cudaResourceDesc resource{};
    cudaTextureDesc texture{};
};

std::map<uint64_t, Object> &objects() {
    static auto *made = new std::map<uint64_t, Object>;  // outlives static destructors
    return *made;
}

// Kinds of arrays; perfmodel/launch/texture.py has the same numbers.
enum class Extent : uint32_t { linear, line, plane, space, layered_line, layered_plane, cube, layered_cube };

struct View {
    Extent extent = Extent::linear;
    size_t width = 1, height = 1, depth = 1, layers = 1, pitch = 0;
    cudaChannelFormatDesc format{};
    const void *address = nullptr;
};

View view_of(const Array &array) {
    View view;
    bool layered = array.flags & cudaArrayLayered, cube = array.flags & cudaArrayCubemap;
    if (cube) view.extent = layered ? Extent::layered_cube : Extent::cube;
    else if (layered) view.extent = array.extent.height ? Extent::layered_plane : Extent::layered_line;
    else if (array.extent.depth) view.extent = Extent::space;
    else view.extent = array.extent.height ? Extent::plane : Extent::line;
    view.width = array.width;
    view.height = array.height;
    (view.extent == Extent::space ? view.depth : view.layers) = array.slices;
    view.format = array.format;
    view.address = array.data;
    return view;
}

size_t texel_bytes(const cudaChannelFormatDesc &format) { return size_t(format.x + format.y + format.z + format.w) / 8; }

cudaError_t seen(const cudaResourceDesc &resource, View *view) {
    switch (resource.resType) {
    case cudaResourceTypeArray: {
        const Array *array = array_of(resource.res.array.array);
        if (!array) return cudaErrorInvalidValue;
        *view = view_of(*array);
        return cudaSuccess;
    }
    case cudaResourceTypeLinear:
        view->format = resource.res.linear.desc;
        if (!texel_bytes(view->format)) return cudaErrorInvalidChannelDescriptor;
        view->width = resource.res.linear.sizeInBytes / texel_bytes(view->format);
        view->address = resource.res.linear.devPtr;
        return cudaSuccess;
    case cudaResourceTypePitch2D:
        view->extent = Extent::plane;
        view->format = resource.res.pitch2D.desc;
        view->width = resource.res.pitch2D.width;
        view->height = resource.res.pitch2D.height;
        view->pitch = resource.res.pitch2D.pitchInBytes;
        view->address = resource.res.pitch2D.devPtr;
        return cudaSuccess;
    default: return missing("cudaCreateTextureObject of a mipmapped array (make an object of an array for each level)");
    }
}

cudaError_t created(unsigned long long *made, const cudaResourceDesc *resource, const cudaTextureDesc &texture) {
    View view;
    cudaError_t error = seen(*resource, &view);
    if (error != cudaSuccess) return result(error);
    if (!view.address || !view.width) return result(cudaErrorInvalidValue);
    static uint64_t last = 0;
    uint64_t handle = ++last;
    const cudaChannelFormatDesc &format = view.format;
    uint32_t channels = uint32_t((format.x > 0) + (format.y > 0) + (format.z > 0) + (format.w > 0));
    bool as_float = texture.readMode == cudaReadModeNormalizedFloat && format.f != cudaChannelFormatKindFloat;
    Writer fields;
    fields.put(handle);
    for (uint32_t number : {uint32_t(view.extent), uint32_t(view.width), uint32_t(view.height), uint32_t(view.depth),
                            uint32_t(view.layers), uint32_t(format.f), uint32_t(format.x), channels, uint32_t(view.pitch),
                            uint32_t(texture.filterMode == cudaFilterModeLinear), uint32_t(texture.addressMode[0]),
                            uint32_t(texture.addressMode[1]), uint32_t(texture.addressMode[2]),
                            uint32_t(texture.normalizedCoords != 0), uint32_t(as_float), uint32_t(0)})
        fields.put(number);
    for (float part : texture.borderColor) fields.put(part);
    fields.put(uint64_t(view.address));
    tell(Request::object, fields);
    objects()[handle] = Object{*resource, texture};
    *made = handle;
    return result(cudaSuccess);
}

cudaError_t destroyed(unsigned long long handle) {
    Guard guard(lock());
    wait_for_device();
    objects().erase(handle);
    return result(cudaSuccess);
}

cudaError_t described(unsigned long long handle, cudaResourceDesc *resource, cudaTextureDesc *texture) {
    Guard guard(lock());
    auto found = objects().find(handle);
    if (found == objects().end()) return result(cudaErrorInvalidValue);
    if (resource) *resource = found->second.resource;
    if (texture) *texture = found->second.texture;
    return result(cudaSuccess);
}

}  // namespace
}  // namespace perfmodel

using namespace perfmodel;

EXPORTED cudaError_t cudaCreateTextureObject(cudaTextureObject_t *made, const cudaResourceDesc *resource,
                                             const cudaTextureDesc *texture, const cudaResourceViewDesc *view) {
    Guard guard(lock());
    load_modules();
    if (!made || !resource || !texture) return result(cudaErrorInvalidValue);
    if (view && view->format != cudaResViewFormatNone) return missing("cudaCreateTextureObject with another format (create the array with it)");
    if (texture->sRGB) return missing("cudaCreateTextureObject of sRGB texels (hand over linear ones)");
    bool floats = texture->readMode == cudaReadModeNormalizedFloat;
    View seen_as;
    if (seen(*resource, &seen_as) == cudaSuccess && texture->filterMode == cudaFilterModeLinear && !floats &&
        seen_as.format.f != cudaChannelFormatKindFloat)
        return result(cudaErrorInvalidFilterSetting);
    return created(made, resource, *texture);
}
EXPORTED cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) { return destroyed(object); }
EXPORTED cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *resource, cudaTextureObject_t object) {
    return described(object, resource, nullptr);
}
EXPORTED cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *texture, cudaTextureObject_t object) {
    return described(object, nullptr, texture);
}
EXPORTED cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *made, const cudaResourceDesc *resource) {
    Guard guard(lock());
    load_modules();
    if (!made || !resource || resource->resType != cudaResourceTypeArray) return result(cudaErrorInvalidValue);
    cudaTextureDesc plain;
    std::memset(&plain, 0, sizeof plain);
    return created(made, resource, plain);
}
EXPORTED cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return destroyed(object); }
EXPORTED cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *resource, cudaSurfaceObject_t object) {
    return described(object, resource, nullptr);
}
EXPORTED cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *width, const cudaChannelFormatDesc *, int) {
    if (!width) return result(cudaErrorInvalidValue);
    *width = size_t(1) << 28;
    return result(cudaSuccess);
}
