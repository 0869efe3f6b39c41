// Block primitives of CUB: reduction, scan and radix sort.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

extern "C" __global__ void block_primitives(int *sums, int *scanned, unsigned *sorted, const int *in)
{
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::BlockScan<int, 128>;
    using Sort = cub::BlockRadixSort<unsigned, 128, 2>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
        typename Sort::TempStorage sort;
    } storage;
    const int i = blockIdx.x * 128 + threadIdx.x;
    const int sum = Reduce(storage.reduce).Sum(in[i]);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
    __syncthreads();
    int before;
    Scan(storage.scan).ExclusiveSum(in[i], before);
    scanned[i] = before;
    __syncthreads();
    unsigned keys[2] = {(unsigned)in[i], (unsigned)in[i] * 2654435761u};
    Sort(storage.sort).Sort(keys);
    sorted[2 * i] = keys[0];
    sorted[2 * i + 1] = keys[1];
}
