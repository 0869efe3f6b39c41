// The one device: the GPU that was asked about, its properties and limits.
#include "connection.hpp"

#include <cstdio>

namespace perfmodel {

namespace {
struct Facts {
    std::map<std::string, std::string> texts;
    std::map<std::string, long long> numbers;

    Facts() {
        std::string all = ask(Request::device).text();
        for (size_t at = 0; at < all.size();) {
            size_t end = all.find('\n', at), equal = all.find('=', at);
            std::string name = all.substr(at, equal - at), value = all.substr(equal + 1, end - equal - 1);
            texts[name] = value;
            numbers[name] = std::strtoll(value.c_str(), nullptr, 10);
            at = end + 1;
        }
    }
};

const Facts &facts() {
    static const Facts *known = new Facts;
    return *known;
}

std::map<int, size_t> &limits() {
    static auto *set = new std::map<int, size_t>{{cudaLimitStackSize, 1024},
                                                 {cudaLimitPrintfFifoSize, 1 << 20},
                                                 {cudaLimitMallocHeapSize, 8 << 20},
                                                 {cudaLimitDevRuntimeSyncDepth, 2},
                                                 {cudaLimitDevRuntimePendingLaunchCount, 2048},
                                                 {cudaLimitMaxL2FetchGranularity, 64},
                                                 {cudaLimitPersistingL2CacheSize, 0}};
    return *set;
}

cudaError_t known(int device) { return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
}  // namespace

long long fact(const char *name) {
    auto found = facts().numbers.find(name);
    return found == facts().numbers.end() ? 0 : found->second;
}
const std::string &fact_text(const char *name) { return facts().texts.at(name); }

}  // namespace perfmodel

using namespace perfmodel;

EXPORTED cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaSetDevice(int device) {
    Guard guard(lock());
    load_modules();
    return known(device);
}
EXPORTED cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return known(device); }
EXPORTED cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) {
    *device = 0;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceSynchronize(void) {
    Guard guard(lock());
    wait_for_device();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceReset(void) {
    Guard guard(lock());
    wait_for_device();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
EXPORTED cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }
EXPORTED cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 0;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return result(cudaErrorPeerAccessUnsupported); }
EXPORTED cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    limits()[limit] = value;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
    *value = limits()[limit];
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config) {
    *config = cudaFuncCachePreferNone;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config) {
    *config = cudaSharedMemBankSizeFourByte;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    *flags = cudaDeviceScheduleAuto;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
    std::snprintf(id, size_t(length), "0000:00:00.0");
    return known(device);
}
EXPORTED cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *) {
    *device = 0;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

#if CUDART_VERSION >= 13000
EXPORTED cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
#else
EXPORTED cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp *p, int device) {
#endif
    Guard guard(lock());
    if (!p) return result(cudaErrorInvalidValue);
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "%s", fact_text("name").c_str());
    p->totalGlobalMem = size_t(fact("memory_bytes"));
    p->sharedMemPerBlock = size_t(fact("shared_bytes_per_block"));
    p->regsPerBlock = int(fact("registers_per_block"));
    p->warpSize = 32;
    p->memPitch = 0x7fffffff;
    p->maxThreadsPerBlock = int(fact("max_threads_per_block"));
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->major = int(fact("major"));
    p->minor = int(fact("minor"));
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->multiProcessorCount = int(fact("sm_count"));
    p->canMapHostMemory = 1;
    p->surfaceAlignment = 512;
    p->concurrentKernels = 1;
    p->ECCEnabled = 1;
    p->asyncEngineCount = 3;
    p->unifiedAddressing = 1;
    p->memoryBusWidth = int(fact("memory_bus_bits"));
    p->l2CacheSize = int(fact("l2_bytes"));
    p->maxThreadsPerMultiProcessor = int(fact("max_warps_per_sm") * 32);
    p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->sharedMemPerMultiprocessor = size_t(fact("shared_bytes_per_sm"));
    p->regsPerMultiprocessor = int(fact("registers_per_sm"));
    p->managedMemory = 1;
    p->concurrentManagedAccess = 1;
    p->computePreemptionSupported = 1;
    p->sharedMemPerBlockOptin = size_t(fact("shared_bytes_per_block_opt_in"));
    p->maxBlocksPerMultiProcessor = int(fact("max_blocks_per_sm"));
    p->reservedSharedMemPerBlock = size_t(fact("shared_reserved_bytes_per_block"));
    p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    p->cooperativeLaunch = 1;
    p->clusterLaunch = fact("major") >= 9;
#if CUDART_VERSION < 13000
    p->clockRate = int(fact("clock_khz"));
    p->memoryClockRate = int(fact("memory_clock_khz"));
    p->deviceOverlap = 1;
    p->singleToDoublePrecisionPerfRatio = int(fact("single_to_double_ratio"));
#endif
    return known(device);
}

EXPORTED cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    Guard guard(lock());
    if (!value) return result(cudaErrorInvalidValue);
    static const std::map<int, const char *> facts_of = {
        {cudaDevAttrMaxThreadsPerBlock, "max_threads_per_block"},
        {cudaDevAttrMaxSharedMemoryPerBlock, "shared_bytes_per_block"},
        {cudaDevAttrMaxRegistersPerBlock, "registers_per_block"},
        {cudaDevAttrClockRate, "clock_khz"},
        {cudaDevAttrMultiProcessorCount, "sm_count"},
        {cudaDevAttrMemoryClockRate, "memory_clock_khz"},
        {cudaDevAttrGlobalMemoryBusWidth, "memory_bus_bits"},
        {cudaDevAttrL2CacheSize, "l2_bytes"},
        {cudaDevAttrComputeCapabilityMajor, "major"},
        {cudaDevAttrComputeCapabilityMinor, "minor"},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, "shared_bytes_per_sm"},
        {cudaDevAttrMaxRegistersPerMultiprocessor, "registers_per_sm"},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, "shared_bytes_per_block_opt_in"},
        {cudaDevAttrMaxBlocksPerMultiprocessor, "max_blocks_per_sm"},
        {cudaDevAttrReservedSharedMemoryPerBlock, "shared_reserved_bytes_per_block"},
        {cudaDevAttrSingleToDoublePrecisionPerfRatio, "single_to_double_ratio"},
    };
    static const std::map<int, int> constant = {
        {cudaDevAttrMaxBlockDimX, 1024},
        {cudaDevAttrMaxBlockDimY, 1024},
        {cudaDevAttrMaxBlockDimZ, 64},
        {cudaDevAttrMaxGridDimX, 0x7fffffff},
        {cudaDevAttrMaxGridDimY, 65535},
        {cudaDevAttrMaxGridDimZ, 65535},
        {cudaDevAttrTotalConstantMemory, 65536},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxPitch, 0x7fffffff},
        {cudaDevAttrTextureAlignment, 512},
        {cudaDevAttrTexturePitchAlignment, 32},
        {cudaDevAttrSurfaceAlignment, 512},
        {cudaDevAttrGpuOverlap, 1},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrEccEnabled, 1},
        {cudaDevAttrAsyncEngineCount, 3},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrGlobalL1CacheSupported, 1},
        {cudaDevAttrLocalL1CacheSupported, 1},
        {cudaDevAttrManagedMemory, 1},
        {cudaDevAttrConcurrentManagedAccess, 1},
        {cudaDevAttrComputePreemptionSupported, 1},
        {cudaDevAttrHostRegisterSupported, 1},
        {cudaDevAttrMemoryPoolsSupported, 1},
        {cudaDevAttrCooperativeLaunch, 1},
    };
    *value = 0;
    auto named = facts_of.find(attribute);
    auto fixed = constant.find(attribute);
    if (named != facts_of.end()) *value = int(fact(named->second));
    else if (fixed != constant.end()) *value = fixed->second;
    else if (attribute == cudaDevAttrClusterLaunch) *value = fact("major") >= 9;
    else if (attribute == cudaDevAttrMaxThreadsPerMultiProcessor) *value = int(fact("max_warps_per_sm") * 32);
    return known(device);
}
