// ssim_v2: the steps of ssim_v1 on wide, flat tiles, two outputs a thread.
//
// Block:  32 x 8 threads, 64 x 8 outputs; for each channel two patches of 74 x 18 pixels in shared memory.
// Thread: two outputs 32 columns apart; three rows at most of the horizontal pass.
#include "ssim_lean.cuh"

extern "C" __global__ void __launch_bounds__(LANES *TILE_HEIGHT, 6) ssim_v2(SSIM_PARAMETERS)
{
    lean_similarity(SSIM_OUTPUTS, image1, image2, channels, height, width);
}
