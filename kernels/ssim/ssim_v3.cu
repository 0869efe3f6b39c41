// ssim_v3: the pipeline in y with filtered rows in named registers and copies without branches.
//
// Block:  32 threads, 64 x 72 outputs; a ring of 8 rows of both images in shared memory, copied 7 rows ahead.
// Thread: two neighbouring columns; 11 filtered rows of 2 columns and 5 maps in registers; a loop turn of 24 rows.
// The bound of 10 blocks an SM keeps the compiler from spending registers that would halve the warps in flight.
#include "ssim_unrolled.cuh"

extern "C" __global__ void __launch_bounds__(LANES, 10) ssim_v3(SSIM_PARAMETERS)
{
    unrolled_similarity<ClampedCopy>(SSIM_OUTPUTS, image1, image2, channels, height, width);
}
