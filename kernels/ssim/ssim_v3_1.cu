// ssim_v3_1: ssim_v3 with every pixel tested before it is copied.
//
// Block:  32 threads, 64 x 72 outputs; a ring of 8 rows of both images in shared memory, copied 7 rows ahead.
// Thread: two neighbouring columns; 11 filtered rows of 2 columns and 5 maps in registers; a loop turn of 24 rows.
#include "ssim_unrolled.cuh"

extern "C" __global__ void __launch_bounds__(LANES, 10) ssim_v3_1(SSIM_PARAMETERS)
{
    unrolled_similarity<GuardedCopy>(SSIM_OUTPUTS, image1, image2, channels, height, width);
}
