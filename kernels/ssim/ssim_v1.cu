// ssim_v1: ssim_naive without needless steps and barriers.
//
// Block:  32 x 32 threads, 32 x 32 outputs; for each channel two patches of 42 x 42 pixels in shared memory.
// Thread: one output; two rows at most of the horizontal pass.
#include "ssim_lean.cuh"

extern "C" __global__ void __launch_bounds__(LANES *TILE_HEIGHT, 2) ssim_v1(SSIM_PARAMETERS)
{
    lean_similarity(SSIM_OUTPUTS, image1, image2, channels, height, width);
}
