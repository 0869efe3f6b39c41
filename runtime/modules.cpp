// Device code of the program: fat binaries, kernels and variables by what the host calls them, launches.
#include "connection.hpp"

namespace perfmodel {

namespace {

struct Variable {
    uint32_t module;
    std::string name;
    size_t bytes;
    void **managed;  // where the host keeps the address of a managed variable
};

struct Place {
    char *address;
    size_t bytes;
};

struct Module {
    const unsigned char *binary;
    bool loaded = false;
    uint32_t id = 0;
    std::map<std::string, Place> variables;
};

struct Registry {
    std::vector<Module> modules;
    std::map<const void *, Kernel> kernels;      // by host function
    std::map<const void *, Kernel *> handles;    // by address of the kernel
    std::map<const void *, Variable> variables;  // by host shadow
    bool managed_waiting = false;
};

Registry &registry() {
    static Registry *made = new Registry;  // filled by static constructors, read by static destructors
    return *made;
}

struct Wrapper {  // fatbinary_section.h
    int magic, version;
    const unsigned char *data;
    void *more;
};

size_t bytes_of(const unsigned char *binary) {
    uint16_t head;
    uint64_t body;
    std::memcpy(&head, binary + 6, sizeof head);
    std::memcpy(&body, binary + 8, sizeof body);
    return head + body;
}

Module &loaded(uint32_t index) {
    Module &module = registry().modules.at(index);
    if (module.loaded) return module;
    module.loaded = true;
    Reader answer = ask(Request::load, Writer().put(module.binary, bytes_of(module.binary)));
    module.id = answer.get<uint32_t>();
    size_t bytes = answer.get<uint64_t>();
    char *base = bytes ? static_cast<char *>(allocate(bytes, Kind::module)) : nullptr;
    Reader places = ask(Request::place, Writer().put(module.id).put(uint64_t(base)));
    uint32_t count = places.get<uint32_t>();
    for (uint32_t k = 0; k < count; ++k) {
        std::string name = places.text();
        char *address = reinterpret_cast<char *>(places.get<uint64_t>());
        module.variables[name] = Place{address, places.get<uint64_t>()};
    }
    for (auto &variable : registry().variables)
        if (variable.second.module == index && variable.second.managed) {
            auto place = module.variables.find(variable.second.name);
            if (place != module.variables.end()) *variable.second.managed = place->second.address;
        }
    return module;
}

void make_known(Kernel &kernel) {
    if (kernel.known) return;
    Reader answer = ask(Request::kernel, Writer().put(loaded(kernel.module).id).text(kernel.name));
    kernel.known = true;
    kernel.id = answer.get<uint32_t>();
    kernel.registers = answer.get<int32_t>();
    kernel.threads = answer.get<int32_t>();
    kernel.binary_version = answer.get<int32_t>();
    kernel.ptx_version = answer.get<int32_t>();
    kernel.shared_bytes = answer.get<uint64_t>();
    kernel.constant_bytes = answer.get<uint64_t>();
    kernel.local_bytes = answer.get<uint64_t>();
    uint32_t count = answer.get<uint32_t>();
    for (uint32_t k = 0; k < count; ++k) {
        uint32_t offset = answer.get<uint32_t>();
        kernel.parameters.emplace_back(offset, answer.get<uint32_t>());
    }
}

thread_local struct {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
} pushed[8];
thread_local int pushed_count = 0;

}  // namespace

void load_modules() {
    if (!registry().managed_waiting) return;
    registry().managed_waiting = false;
    for (auto &variable : registry().variables)
        if (variable.second.managed) loaded(variable.second.module);
}

Kernel *kernel_of(const void *function) {
    auto &all = registry().kernels;
    auto found = all.find(function);
    Kernel *kernel = found != all.end() ? &found->second : nullptr;
    if (!kernel) {
        auto handle = registry().handles.find(function);
        kernel = handle != registry().handles.end() ? handle->second : nullptr;
    }
    if (kernel) make_known(*kernel);
    return kernel;
}

bool symbol(const void *shadow, char **address, size_t *bytes) {
    auto found = registry().variables.find(shadow);
    if (found == registry().variables.end()) return false;
    Module &module = loaded(found->second.module);
    auto place = module.variables.find(found->second.name);
    if (place == module.variables.end()) return false;
    *address = place->second.address;
    *bytes = place->second.bytes;
    return true;
}

std::vector<char> packed(const Kernel &kernel, void **arguments) {
    std::vector<char> bytes;
    for (size_t k = 0; k < kernel.parameters.size(); ++k) {
        auto [offset, size] = kernel.parameters[k];
        if (bytes.size() < offset + size) bytes.resize(offset + size);
        std::memcpy(&bytes[offset], arguments[k], size);
    }
    return bytes;
}

cudaError_t launch(Kernel &kernel, const Shape &shape, const std::vector<char> &parameters) {
    Writer fields;
    fields.put(kernel.id);
    for (const dim3 &size : {shape.grid, shape.block, shape.cluster}) fields.put(size.x).put(size.y).put(size.z);
    fields.put(uint64_t(shape.shared_bytes)).put(uint32_t(shape.cooperative)).put(uint32_t(kernel.dynamic_shared_bytes));
    fields.put(parameters.data(), parameters.size());
    Reader answer = ask(Request::launch, fields);
    cudaError_t error = cudaError_t(answer.get<int32_t>());
    bool context_lost = answer.get<uint32_t>();
    add_device_seconds(answer.get<double>());
    add_printed(answer.rest());
    if (context_lost) make_sticky(error);
    return error;
}

static cudaError_t start(
    const void *function, Shape shape, void **arguments, cudaStream_t stream) {
    Guard guard(lock());
    load_modules();
    if (sticky() != cudaSuccess) return result(sticky());
    Kernel *kernel = kernel_of(function);
    if (!kernel) return result(cudaErrorInvalidDeviceFunction);
    std::vector<char> parameters = packed(*kernel, arguments);
    return result(enqueue(stream, cudaGraphNodeTypeKernel, [=] { return launch(*kernel, shape, parameters); }));
}

// A launch as a node of a graph.
std::function<cudaError_t()> launch_work(const cudaKernelNodeParams &p) {
    Kernel *kernel = kernel_of(p.func);
    if (!kernel) return [] { return cudaErrorInvalidDeviceFunction; };
    std::vector<char> parameters = packed(*kernel, p.kernelParams);
    return [=] { return launch(*kernel, {p.gridDim, p.blockDim, {}, p.sharedMemBytes}, parameters); };
}

}  // namespace perfmodel

using namespace perfmodel;

// ---- what nvcc's host code calls

EXPORTED void **__cudaRegisterFatBinary(void *wrapper) {
    Guard guard(lock());
    Module module{};
    module.binary = static_cast<Wrapper *>(wrapper)->data;
    registry().modules.push_back(module);
    return reinterpret_cast<void **>(registry().modules.size());
}
EXPORTED void __cudaRegisterFatBinaryEnd(void **) {}
EXPORTED void __cudaUnregisterFatBinary(void **) {}

static uint32_t index_of(void **handle) { return uint32_t(reinterpret_cast<size_t>(handle) - 1); }

EXPORTED void __cudaRegisterFunction(void **handle, const char *function, char *, const char *name, int, uint3 *, uint3 *,
                                     dim3 *, dim3 *, int *) {
    Guard guard(lock());
    Kernel &kernel = registry().kernels[function];
    kernel.module = index_of(handle);
    kernel.name = name;
    registry().handles[&kernel] = &kernel;
}
EXPORTED void __cudaRegisterVar(void **handle, char *shadow, char *, const char *name, int, size_t bytes, int, int) {
    Guard guard(lock());
    registry().variables[shadow] = Variable{index_of(handle), name, bytes, nullptr};
}
EXPORTED void __cudaRegisterManagedVar(
    void **handle, void **shadow, char *, const char *name, int, size_t bytes, int, int) {
    Guard guard(lock());
    registry().variables[shadow] = Variable{index_of(handle), name, bytes, shadow};
    registry().managed_waiting = true;
}
EXPORTED void __cudaRegisterHostVar(void **, const char *, char *, size_t) {}
EXPORTED void __cudaRegisterTexture(void **, const void *, const void **, const char *, int, int, int) {
    missing("textures (texture references)");
}
EXPORTED void __cudaRegisterSurface(void **, const void *, const void **, const char *, int, int) {
    missing("surfaces (surface references)");
}
EXPORTED char __cudaInitModule(void **handle) {
    Guard guard(lock());
    loaded(index_of(handle));
    return 1;
}
EXPORTED unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
    if (pushed_count == 8) return 1;
    pushed[pushed_count++] = {grid, block, shared_bytes, static_cast<cudaStream_t>(stream)};
    return 0;
}
EXPORTED cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
    if (!pushed_count) return cudaErrorMissingConfiguration;
    auto &last = pushed[--pushed_count];
    *grid = last.grid;
    *block = last.block;
    *shared_bytes = last.shared_bytes;
    *static_cast<cudaStream_t *>(stream) = last.stream;
    return cudaSuccess;
}
EXPORTED cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *function) {
    Guard guard(lock());
    auto found = registry().kernels.find(function);
    if (found == registry().kernels.end()) return cudaErrorInvalidDeviceFunction;
    *handle = reinterpret_cast<cudaKernel_t>(&found->second);
    return cudaSuccess;
}
EXPORTED cudaError_t __cudaLaunchKernel(
    cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return start(kernel, {grid, block, {}, shared_bytes}, arguments, stream);
}

// ---- launches

EXPORTED cudaError_t cudaLaunchKernel(
    const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return start(function, {grid, block, {}, shared_bytes}, arguments, stream);
}
EXPORTED cudaError_t cudaLaunchCooperativeKernel(
    const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return start(function, {grid, block, {}, shared_bytes, true}, arguments, stream);
}
EXPORTED cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    if (!config) return result(cudaErrorInvalidValue);
    Shape shape{config->gridDim, config->blockDim, {}, config->dynamicSmemBytes};
    for (unsigned k = 0; k < config->numAttrs; ++k) {
        const cudaLaunchAttribute &attribute = config->attrs[k];
        if (attribute.id == cudaLaunchAttributeClusterDimension)
            shape.cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
        if (attribute.id == cudaLaunchAttributeCooperative) shape.cooperative = attribute.val.cooperative;
    }
    return start(function, shape, arguments, config->stream);
}

// ---- kernels' attributes and occupancy

EXPORTED cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
    Guard guard(lock());
    Kernel *kernel = kernel_of(function);
    if (!kernel || !attributes) return result(cudaErrorInvalidDeviceFunction);
    std::memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = kernel->shared_bytes;
    attributes->constSizeBytes = kernel->constant_bytes;
    attributes->localSizeBytes = kernel->local_bytes;
    attributes->maxThreadsPerBlock = kernel->threads;
    attributes->numRegs = kernel->registers;
    attributes->ptxVersion = kernel->ptx_version;
    attributes->binaryVersion = kernel->binary_version;
    attributes->maxDynamicSharedSizeBytes = kernel->dynamic_shared_bytes
                                                ? kernel->dynamic_shared_bytes
                                                : int(fact("shared_bytes_per_block")) - int(kernel->shared_bytes);
    attributes->preferredShmemCarveout = kernel->carve_out;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value) {
    Guard guard(lock());
    Kernel *kernel = kernel_of(function);
    if (!kernel) return result(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value + (long long)kernel->shared_bytes > fact("shared_bytes_per_block_opt_in"))
            return result(cudaErrorInvalidValue);
        kernel->dynamic_shared_bytes = value;
    }
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) kernel->carve_out = value;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int) {
    return cudaFuncSetAttribute(kernel, attribute, value);
}
EXPORTED cudaError_t cudaGetKernel(cudaKernel_t *handle, const void *function) {
    return result(__cudaGetKernel(handle, function));
}
EXPORTED cudaError_t cudaGetFuncBySymbol(cudaFunction_t *handle, const void *function) {
    return cudaGetKernel(reinterpret_cast<cudaKernel_t *>(handle), function);
}
EXPORTED cudaError_t cudaFuncGetName(const char **name, const void *function) {
    Guard guard(lock());
    Kernel *kernel = kernel_of(function);
    if (!kernel || !name) return result(cudaErrorInvalidDeviceFunction);
    *name = kernel->name.c_str();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared_bytes, unsigned) {
    Guard guard(lock());
    Kernel *kernel = kernel_of(function);
    if (!kernel) return result(cudaErrorInvalidDeviceFunction);
    if (!blocks || threads <= 0) return result(cudaErrorInvalidValue);
    Reader answer = ask(Request::occupancy, Writer().put(kernel->id).put(uint32_t(threads)).put(uint64_t(shared_bytes)));
    *blocks = answer.get<int32_t>();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *function, int threads, size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}
EXPORTED cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(
    size_t *bytes, const void *function, int blocks, int threads) {
    Guard guard(lock());
    *bytes = 0;
    size_t low = 0, high = size_t(fact("shared_bytes_per_block_opt_in"));
    while (low < high) {  // the largest size at which so many blocks fit
        size_t middle = (low + high + 1) / 2;
        int fit = 0;
        cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, function, threads, middle);
        if (error != cudaSuccess) return error;
        if (fit >= blocks) low = middle;
        else high = middle - 1;
    }
    *bytes = low;
    return result(cudaSuccess);
}
