// ssim_v4_z4: ssim_v4_1 where each pixel outside of the image fills its 4 bytes with zeros from a valid address.
//
// Block:  32 threads, 64 x 72 outputs; a ring of 4 rows of both images in shared memory, copied 3 rows ahead.
// Thread: two neighbouring columns; partial sums of 10 waiting outputs of 2 columns and 5 maps; a loop turn of 1 row.
#include "ssim_flow.cuh"

extern "C" __global__ void __launch_bounds__(LANES) ssim_v4_z4(SSIM_PARAMETERS)
{
    flowing_similarity<SelectedCopy>(SSIM_OUTPUTS, image1, image2, channels, height, width);
}
