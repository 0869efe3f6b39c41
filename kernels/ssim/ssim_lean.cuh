// The steps of ssim_naive without what they do not need (v1, v2): no clearing, both images loaded at once.
// Barriers for each channel: 1 load, 5 x (rows, columns), 1 product = 12.
#pragma once
#include "ssim_staged.cuh"

template <int MAP, bool SQUARE>
__device__ __forceinline__ void filter(const Patch &patch, Scratch &scratch, float (&filtered)[COLUMNS][MAPS])
{
    filter_rows<SQUARE>(patch, scratch);
    __syncthreads();
    filter_columns<MAP>(scratch, filtered);
    __syncthreads();
}

__device__ __forceinline__ void lean_similarity(const Outputs &outputs, const float *image1, const float *image2,
                                                int channels, int height, int width)
{
    __shared__ Patch patch1, patch2;
    __shared__ Scratch scratch;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        float filtered[COLUMNS][MAPS];
        load_patch(patch1, image1 + plane, height, width);
        load_patch(patch2, image2 + plane, height, width);
        __syncthreads();
        filter<0, false>(patch1, scratch, filtered);
        filter<1, true>(patch1, scratch, filtered);
        filter<2, false>(patch2, scratch, filtered);
        filter<3, true>(patch2, scratch, filtered);
        multiply_patch(patch1, patch2);
        __syncthreads();
        filter<4, false>(patch1, scratch, filtered);
        store_similarity(outputs, plane, filtered, height, width);
    }
}
