// Device memory: an arena that this process and the simulator share, so that a copy to the device is a copy.
#include "arrays.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace perfmodel {

namespace {

constexpr size_t ALIGNMENT = 512;
constexpr size_t PAGE = 4096;
constexpr size_t REACH = 1 << 23;  // of an instruction's offset: a register may point so far below what is accessed

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

struct Arena {
    int descriptor;
    char *base;
    size_t bytes;
    std::map<char *, size_t> free;  // first byte and size of each free stretch
    std::map<char *, Block> used;

    Arena() {
        const char *text = std::getenv("PERFMODEL_RUN_MEMORY");
        descriptor = text ? std::atoi(text) : -1;
        base = reinterpret_cast<char *>(fact("memory_address"));
        bytes = size_t(fact("memory_bytes"));
        void *got = mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, descriptor, 0);
        if (got != base) {
            std::fprintf(stderr, "perfmodel: the program's memory cannot be shared with the simulator\n");
            _exit(3);
        }
        free[base + REACH] = bytes - REACH;
    }

    size_t left() const {
        size_t total = 0;
        for (auto &stretch : free) total += stretch.second;
        return total;
    }

    // A byte behind each allocation stays free, so that what lies beyond it is no neighbour's.
    char *take(size_t wanted, size_t alignment) {
        size_t size = round_up(wanted + 1, alignment);
        for (auto stretch = free.begin(); stretch != free.end(); ++stretch) {
            char *first = reinterpret_cast<char *>(round_up(reinterpret_cast<size_t>(stretch->first), alignment));
            size_t skipped = size_t(first - stretch->first);
            if (stretch->second < skipped + size) continue;
            size_t rest = stretch->second - skipped - size;
            if (skipped) stretch->second = skipped;
            else free.erase(stretch);
            if (rest) free[first + size] = rest;
            return first;
        }
        return nullptr;
    }

    void give_back(char *first, size_t size) {
        char *low = reinterpret_cast<char *>(round_up(reinterpret_cast<size_t>(first), PAGE));
        char *high = reinterpret_cast<char *>(reinterpret_cast<size_t>(first + size) / PAGE * PAGE);
        if (low < high)
            (void)fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, low - base, high - low);
        auto next = free.lower_bound(first);
        if (next != free.end() && first + size == next->first) {
            size += next->second;
            next = free.erase(next);
        }
        if (next != free.begin()) {
            auto before = std::prev(next);
            if (before->first + before->second == first) {
                before->second += size;
                return;
            }
        }
        free[first] = size;
    }
};

Arena &arena() {
    static Arena *made = new Arena;  // outlives static destructors
    return *made;
}

size_t alignment_of(Kind kind) { return kind == Kind::registered ? PAGE : ALIGNMENT; }

bool in_arena(const void *address) {
    const char *at = static_cast<const char *>(address);
    return at >= arena().base && at < arena().base + arena().bytes;
}

// Whether bytes of device memory lie in one allocation; what lies elsewhere is the host's and not looked at.
bool held(const void *address, size_t bytes) {
    if (!in_arena(address)) return true;
    char *first = nullptr;
    const Block *block = block_at(address, &first);
    return block && size_t(static_cast<const char *>(address) - first) + bytes <= block->bytes;
}

// Registered memory: where the device sees it, by where the host does.
std::map<char *, char *> &registered() {
    static auto *known = new std::map<char *, char *>;
    return *known;
}

cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return cudaSuccess;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!to || !from || unsigned(kind) > cudaMemcpyDefault) return cudaErrorInvalidValue;
    if ((to_device && !in_arena(to)) || (from_device && !in_arena(from))) return cudaErrorInvalidValue;
    if (!held(to, bytes) || !held(from, bytes)) return cudaErrorInvalidValue;
    std::memmove(to, from, bytes);
    return cudaSuccess;
}

cudaError_t copy_rows(
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    if (width > to_pitch || width > from_pitch) return height ? cudaErrorInvalidPitchValue : cudaSuccess;
    for (size_t row = 0; row < height; ++row) {
        cudaError_t error =
            copy(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width, kind);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

// One side of a copy in three axes: of linear memory columns are bytes, of an array texels.
struct Side {
    char *base;
    size_t pitch, rows, texel;
    cudaPos position;
    bool holds(const cudaExtent &extent, const Array *array) const {
        return !array || (position.x + extent.width <= array->width && position.y + extent.height <= array->height &&
                          position.z + extent.depth <= array->slices);
    }
    char *row(size_t z) const { return base + position.x * texel + (position.y + (position.z + z) * rows) * pitch; }
};

Side side_of(const Array *array, const cudaPitchedPtr &linear, const cudaPos &position) {
    if (!array) return Side{static_cast<char *>(linear.ptr), linear.pitch, linear.ysize, 1, position};
    return Side{array->data, array->width * array->texel_bytes(), array->height, array->texel_bytes(), position};
}

cudaError_t copy_3d(const cudaMemcpy3DParms &p) {
    const Array *from_array = array_of(p.srcArray), *to_array = array_of(p.dstArray);
    if ((p.srcArray && !from_array) || (p.dstArray && !to_array)) return cudaErrorInvalidValue;
    Side from = side_of(from_array, p.srcPtr, p.srcPos), to = side_of(to_array, p.dstPtr, p.dstPos);
    if (!from.holds(p.extent, from_array) || !to.holds(p.extent, to_array)) return cudaErrorInvalidValue;
    if (from_array && to_array && from.texel != to.texel) return cudaErrorInvalidValue;
    size_t width = p.extent.width * std::max(from.texel, to.texel);
    for (size_t z = 0; z < p.extent.depth; ++z) {
        cudaError_t error = copy_rows(to.row(z), to.pitch, from.row(z), from.pitch, width, p.extent.height, p.kind);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

cudaError_t fill(void *to, int value, size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    if (!in_arena(to) || !held(to, bytes)) return cudaErrorInvalidValue;
    std::memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t fill_rows(void *to, size_t pitch, int value, size_t width, size_t height) {
    for (size_t row = 0; row < height; ++row) {
        cudaError_t error = fill(static_cast<char *>(to) + row * pitch, value, width);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

// Work of a stream; copies between host and device end before the call returns, so that nothing has to be kept.
cudaError_t in_stream(cudaStream_t stream, cudaGraphNodeType type, std::function<cudaError_t()> work, bool waits = false) {
    Guard guard(lock());
    load_modules();
    if (sticky() != cudaSuccess) return sticky();
    cudaError_t error = enqueue(stream, type, std::move(work));
    if (waits) wait_for_device();
    return result(error);
}

cudaError_t new_block(void **address, size_t bytes, Kind kind, unsigned flags = 0) {
    Guard guard(lock());
    load_modules();
    if (!address) return result(cudaErrorInvalidValue);
    if (sticky() != cudaSuccess) return sticky();
    if (bytes == 0) {
        *address = nullptr;
        return result(cudaSuccess);
    }
    void *made = allocate(bytes, kind, flags);
    if (!made) return result(cudaErrorMemoryAllocation);
    *address = made;
    return result(cudaSuccess);
}

cudaError_t free_block(void *address) {
    Guard guard(lock());
    load_modules();
    if (!address) return result(cudaSuccess);
    wait_for_device();
    return result(release(address) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // namespace

void *allocate(size_t bytes, Kind kind, unsigned flags) {
    Guard guard(lock());
    if (bytes > arena().bytes) return nullptr;
    char *made = arena().take(bytes, alignment_of(kind));
    if (!made) return nullptr;
    arena().used[made] = Block{bytes, kind, flags, nullptr};
    tell(Request::allocated, Writer().put(uint64_t(made)).put(uint64_t(bytes)).put(uint32_t(kind)));
    return made;
}

bool release(void *address) {
    Guard guard(lock());
    auto found = arena().used.find(static_cast<char *>(address));
    if (found == arena().used.end()) return false;
    size_t size = round_up(found->second.bytes + 1, alignment_of(found->second.kind));
    arena().used.erase(found);
    arena().give_back(static_cast<char *>(address), size);
    tell(Request::freed, Writer().put(uint64_t(address)));
    return true;
}

const Block *block_at(const void *address, char **first) {
    char *at = const_cast<char *>(static_cast<const char *>(address));
    auto next = arena().used.upper_bound(at);
    if (next == arena().used.begin()) return nullptr;
    auto found = std::prev(next);
    if (at >= found->first + found->second.bytes) return nullptr;
    if (first) *first = found->first;
    return &found->second;
}

}  // namespace perfmodel

using namespace perfmodel;

// ---- allocation

EXPORTED cudaError_t cudaMalloc(void **address, size_t bytes) { return new_block(address, bytes, Kind::device); }
EXPORTED cudaError_t cudaMallocAsync(void **address, size_t bytes, cudaStream_t) {
    return new_block(address, bytes, Kind::device);
}
EXPORTED cudaError_t cudaMallocFromPoolAsync(void **address, size_t bytes, cudaMemPool_t, cudaStream_t) {
    return new_block(address, bytes, Kind::device);
}
EXPORTED cudaError_t cudaMallocManaged(void **address, size_t bytes, unsigned flags) {
    if (bytes == 0) return result(cudaErrorInvalidValue);
    return new_block(address, bytes, Kind::managed, flags);
}
EXPORTED cudaError_t cudaMallocHost(void **address, size_t bytes) { return new_block(address, bytes, Kind::pinned); }
EXPORTED cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
    return new_block(address, bytes, Kind::pinned, flags);
}
EXPORTED cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height) {
    if (!pitch) return result(cudaErrorInvalidValue);
    *pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return new_block(address, *pitch * height, Kind::device);
}
EXPORTED cudaError_t cudaMalloc3D(cudaPitchedPtr *made, cudaExtent extent) {
    if (!made) return result(cudaErrorInvalidValue);
    made->xsize = extent.width;
    made->ysize = extent.height;
    return cudaMallocPitch(&made->ptr, &made->pitch, extent.width, extent.height * extent.depth);
}
EXPORTED cudaError_t cudaFree(void *address) { return free_block(address); }
EXPORTED cudaError_t cudaFreeAsync(void *address, cudaStream_t) { return free_block(address); }
EXPORTED cudaError_t cudaFreeHost(void *address) { return free_block(address); }

EXPORTED cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    Guard guard(lock());
    *total_bytes = arena().bytes;
    *free_bytes = arena().left();
    return result(cudaSuccess);
}

// ---- host memory that the device sees

// The pages of a range are replaced by pages of the arena with the same contents.
EXPORTED cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned flags) {
    Guard guard(lock());
    load_modules();
    if (!address || !bytes) return result(cudaErrorInvalidValue);
    size_t begin = reinterpret_cast<size_t>(address) / PAGE * PAGE;
    size_t end = round_up(reinterpret_cast<size_t>(address) + bytes, PAGE);
    auto next = registered().upper_bound(reinterpret_cast<char *>(end - 1));
    if (next != registered().begin()) {
        auto before = std::prev(next);
        const Block *block = block_at(before->second);
        if (block && before->first + block->bytes > reinterpret_cast<char *>(begin))
            return result(cudaErrorHostMemoryAlreadyRegistered);
    }
    char *made = static_cast<char *>(allocate(end - begin, Kind::registered, flags));
    if (!made) return result(cudaErrorMemoryAllocation);
    std::memcpy(made, reinterpret_cast<void *>(begin), end - begin);
    void *got = mmap(reinterpret_cast<void *>(begin), end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     arena().descriptor, made - arena().base);
    if (got == MAP_FAILED) {
        release(made);
        return result(cudaErrorInvalidValue);
    }
    arena().used[made].host = reinterpret_cast<void *>(begin);
    registered()[reinterpret_cast<char *>(begin)] = made;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaHostUnregister(void *address) {
    Guard guard(lock());
    auto found = registered().find(reinterpret_cast<char *>(reinterpret_cast<size_t>(address) / PAGE * PAGE));
    if (found == registered().end()) return result(cudaErrorHostMemoryNotRegistered);
    wait_for_device();
    // What lies in the first and the last page beside the range may be the heap's own: nothing of it is used in between.
    char *host = found->first;
    const char *device = found->second;
    size_t bytes = block_at(device)->bytes;
    void *got = mmap(host, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (got == host) std::memcpy(host, device, bytes);
    if (got == MAP_FAILED) return result(cudaErrorUnknown);
    release(found->second);
    registered().erase(found);
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
    Guard guard(lock());
    if (!device || !host) return result(cudaErrorInvalidValue);
    if (in_arena(host)) {
        *device = host;
        return result(cudaSuccess);
    }
    auto next = registered().upper_bound(static_cast<char *>(host));
    if (next == registered().begin()) return result(cudaErrorInvalidValue);
    auto found = std::prev(next);
    size_t offset = size_t(static_cast<char *>(host) - found->first);
    if (offset >= block_at(found->second)->bytes) return result(cudaErrorInvalidValue);
    *device = found->second + offset;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaHostGetFlags(unsigned *flags, void *host) {
    Guard guard(lock());
    const Block *block = block_at(host);
    if (!flags || !block) return result(cudaErrorInvalidValue);
    *flags = block->flags;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *address) {
    Guard guard(lock());
    if (!attributes) return result(cudaErrorInvalidValue);
    std::memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    attributes->hostPointer = const_cast<void *>(address);
    const Block *block = block_at(address);
    if (!block) return result(cudaSuccess);
    attributes->device = 0;
    attributes->devicePointer = const_cast<void *>(address);
    switch (block->kind) {
    case Kind::managed: attributes->type = cudaMemoryTypeManaged; break;
    case Kind::pinned:
    case Kind::registered: attributes->type = cudaMemoryTypeHost; break;
    default:
        attributes->type = cudaMemoryTypeDevice;
        attributes->hostPointer = nullptr;
    }
    return result(cudaSuccess);
}

// ---- copies

EXPORTED cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return in_stream(0, cudaGraphNodeTypeMemcpy, [=] { return copy(to, from, bytes, kind); }, true);
}
EXPORTED cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return in_stream(stream, cudaGraphNodeTypeMemcpy, [=] { return copy(to, from, bytes, kind); });
}
EXPORTED cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) {
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
}
EXPORTED cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
EXPORTED cudaError_t cudaMemcpy2D(
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    return in_stream(
        0, cudaGraphNodeTypeMemcpy, [=] { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind); }, true);
}
EXPORTED cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                       size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return in_stream(stream, cudaGraphNodeTypeMemcpy,
                     [=] { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind); });
}
EXPORTED cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p) {
    if (!p) return result(cudaErrorInvalidValue);
    cudaMemcpy3DParms kept = *p;
    return in_stream(0, cudaGraphNodeTypeMemcpy, [kept] { return copy_3d(kept); }, true);
}
EXPORTED cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t stream) {
    if (!p) return result(cudaErrorInvalidValue);
    cudaMemcpy3DParms kept = *p;
    return in_stream(stream, cudaGraphNodeTypeMemcpy, [kept] { return copy_3d(kept); });
}

static cudaError_t to_symbol(
    const void *shadow, const void *from, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
    Guard guard(lock());
    char *address;
    size_t size;
    if (!symbol(shadow, &address, &size)) return result(cudaErrorInvalidSymbol);
    if (offset + bytes > size) return result(cudaErrorInvalidValue);
    return in_stream(stream, cudaGraphNodeTypeMemcpy, [=] { return copy(address + offset, from, bytes, kind); }, waits);
}
static cudaError_t from_symbol(
    void *to, const void *shadow, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
    Guard guard(lock());
    char *address;
    size_t size;
    if (!symbol(shadow, &address, &size)) return result(cudaErrorInvalidSymbol);
    if (offset + bytes > size) return result(cudaErrorInvalidValue);
    return in_stream(stream, cudaGraphNodeTypeMemcpy, [=] { return copy(to, address + offset, bytes, kind); }, waits);
}
EXPORTED cudaError_t cudaMemcpyToSymbol(
    const void *shadow, const void *from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return to_symbol(shadow, from, bytes, offset, kind, 0, true);
}
EXPORTED cudaError_t cudaMemcpyToSymbolAsync(
    const void *shadow, const void *from, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    return to_symbol(shadow, from, bytes, offset, kind, stream, false);
}
EXPORTED cudaError_t cudaMemcpyFromSymbol(
    void *to, const void *shadow, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return from_symbol(to, shadow, bytes, offset, kind, 0, true);
}
EXPORTED cudaError_t cudaMemcpyFromSymbolAsync(
    void *to, const void *shadow, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    return from_symbol(to, shadow, bytes, offset, kind, stream, false);
}
EXPORTED cudaError_t cudaGetSymbolAddress(void **address, const void *shadow) {
    Guard guard(lock());
    size_t bytes;
    return result(symbol(shadow, reinterpret_cast<char **>(address), &bytes) ? cudaSuccess : cudaErrorInvalidSymbol);
}
EXPORTED cudaError_t cudaGetSymbolSize(size_t *bytes, const void *shadow) {
    Guard guard(lock());
    char *address;
    return result(symbol(shadow, &address, bytes) ? cudaSuccess : cudaErrorInvalidSymbol);
}

// ---- memset

EXPORTED cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    return in_stream(0, cudaGraphNodeTypeMemset, [=] { return fill(to, value, bytes); });
}
EXPORTED cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return in_stream(stream, cudaGraphNodeTypeMemset, [=] { return fill(to, value, bytes); });
}
EXPORTED cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
    return in_stream(0, cudaGraphNodeTypeMemset, [=] { return fill_rows(to, pitch, value, width, height); });
}
EXPORTED cudaError_t cudaMemset2DAsync(
    void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    return in_stream(stream, cudaGraphNodeTypeMemset, [=] { return fill_rows(to, pitch, value, width, height); });
}
EXPORTED cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
    return cudaMemset2D(to.ptr, to.pitch, value, extent.width, extent.height * extent.depth);
}
EXPORTED cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
    return cudaMemset2DAsync(to.ptr, to.pitch, value, extent.width, extent.height * extent.depth, stream);
}

// ---- memory pools: one, whose memory is the arena

EXPORTED cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int) {
    *pool = reinterpret_cast<cudaMemPool_t>(&arena());
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return cudaDeviceGetDefaultMemPool(pool, device);
}
EXPORTED cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *) {
    return cudaDeviceGetDefaultMemPool(pool, 0);
}
EXPORTED cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *value) {
    std::memset(value, 0, sizeof(int));
    return result(cudaSuccess);
}

// ---- graph nodes made of copies

namespace perfmodel {
std::function<cudaError_t()> copy_work(const cudaMemcpy3DParms &p) {
    return [p] { return copy_3d(p); };
}
std::function<cudaError_t()> copy_work(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return [=] { return copy(to, from, bytes, kind); };
}
std::function<cudaError_t()> fill_work(const cudaMemsetParams &p) {
    return [p] {
        for (size_t row = 0; row < std::max<size_t>(p.height, 1); ++row) {
            char *begin = static_cast<char *>(p.dst) + row * p.pitch;
            if (!in_arena(begin) || !held(begin, p.width * p.elementSize)) return cudaErrorInvalidValue;
            for (size_t k = 0; k < p.width; ++k) std::memcpy(begin + k * p.elementSize, &p.value, p.elementSize);
        }
        return cudaSuccess;
    };
}
}  // namespace perfmodel
