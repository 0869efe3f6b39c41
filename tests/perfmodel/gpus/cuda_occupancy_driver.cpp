// Answers occupancy questions with NVIDIA's own header: reads the device, then one kernel a line, from standard input
// and writes for each kernel the resident blocks and the limiting factors (-1 where the header refuses).
#include <cstdio>

#include "cuda_occupancy.h"

int main() {
    cudaOccDeviceProp device;
    device.warpSize = 32;
    device.numSms = 1;
    if (scanf("%d %d %d %d %d %d %zu %zu %zu %zu", &device.computeMajor, &device.computeMinor, &device.maxThreadsPerBlock,
              &device.maxThreadsPerMultiprocessor, &device.regsPerBlock, &device.regsPerMultiprocessor,
              &device.sharedMemPerBlock, &device.sharedMemPerMultiprocessor, &device.sharedMemPerBlockOptin,
              &device.reservedSharedMemPerBlock) != 10)
        return 1;
    int threads, registers, barriers;
    size_t static_bytes, dynamic_bytes;
    while (scanf("%d %d %zu %zu %d", &threads, &registers, &static_bytes, &dynamic_bytes, &barriers) == 5) {
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = device.maxThreadsPerBlock;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = static_bytes;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = dynamic_bytes;
        kernel.numBlockBarriers = barriers;
        cudaOccDeviceState state;
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic_bytes))
            printf("-1 0\n");
        else
            printf("%d %u\n", result.activeBlocksPerMultiprocessor, result.limitingFactors);
    }
}
