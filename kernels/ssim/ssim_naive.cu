// ssim_naive: one map after the other through one scratch array, a barrier after every step.
//
// Block:  32 x 32 threads, 32 x 32 outputs; for each channel two patches of 42 x 42 pixels in shared memory.
// Thread: one output; two rows at most of the horizontal pass, which writes the scratch array that was cleared before.
// Barriers for each channel: 2 loads, 5 x (clear, rows, columns), 1 product = 18.
#include "ssim_staged.cuh"

__device__ __forceinline__ void clear(Scratch &scratch)
{
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS; turn++)
        if (threadIdx.y + turn * TILE_HEIGHT < PATCH_HEIGHT)
            scratch[threadIdx.y + turn * TILE_HEIGHT][threadIdx.x] = 0.0f;
}

template <int MAP, bool SQUARE>
__device__ __forceinline__ void filter(const Patch &patch, Scratch &scratch, float (&filtered)[COLUMNS][MAPS])
{
    clear(scratch);
    __syncthreads();
    filter_rows<SQUARE>(patch, scratch);
    __syncthreads();
    filter_columns<MAP>(scratch, filtered);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(LANES *TILE_HEIGHT, 2) ssim_naive(SSIM_PARAMETERS)
{
    __shared__ Patch patch1, patch2;
    __shared__ Scratch scratch;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        float filtered[COLUMNS][MAPS];
        load_patch(patch1, image1 + plane, height, width);
        __syncthreads();
        filter<0, false>(patch1, scratch, filtered);
        filter<1, true>(patch1, scratch, filtered);
        load_patch(patch2, image2 + plane, height, width);
        __syncthreads();
        filter<2, false>(patch2, scratch, filtered);
        filter<3, true>(patch2, scratch, filtered);
        multiply_patch(patch1, patch2);
        __syncthreads();
        filter<4, false>(patch1, scratch, filtered);
        store_similarity(SSIM_OUTPUTS, plane, filtered, height, width);
    }
}
