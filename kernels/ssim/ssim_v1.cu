// ssim_v1: the steps of ssim_naive without what they do not need: no clearing, both images loaded at once.
//
// Block:  32 x 32 threads, 32 x 32 outputs; for each channel two patches of 42 x 42 pixels in shared memory.
// Thread: one output; two rows at most of the horizontal pass.
// Barriers for each channel: 1 load, 5 x (rows, columns), 1 product = 12.
#include "ssim_staged.cuh"

template <bool SQUARE>
__device__ __forceinline__ float filter(const Patch &patch, Scratch &scratch)
{
    filter_rows<SQUARE>(patch, scratch);
    __syncthreads();
    const float sum = filter_columns(scratch);
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(TILE_WIDTH *TILE_HEIGHT, 2) ssim_v1(SSIM_PARAMETERS)
{
    __shared__ Patch patch1, patch2;
    __shared__ Scratch scratch;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        float filtered[MAPS];
        load_patch(patch1, image1 + plane, height, width);
        load_patch(patch2, image2 + plane, height, width);
        __syncthreads();
        filtered[0] = filter<false>(patch1, scratch);
        filtered[1] = filter<true>(patch1, scratch);
        filtered[2] = filter<false>(patch2, scratch);
        filtered[3] = filter<true>(patch2, scratch);
        multiply_patch(patch1, patch2);
        __syncthreads();
        filtered[4] = filter<false>(patch1, scratch);
        store_pixel(SSIM_OUTPUTS, plane, filtered, height, width);
    }
}
