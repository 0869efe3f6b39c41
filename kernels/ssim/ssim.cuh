// What all versions of the fused structural similarity share: parameters, window, the value of one pixel.
//
// Layout:    images, map and gradient maps [batch][channels][height][width], images within 0 ... 1
// Grid:      x, y: tiles of TILE_WIDTH x TILE_HEIGHT outputs; z: batch. A block walks through the channels.
// Result:    the map of the image's size; the window sees zeros outside of the image.
// Constants: TILE_WIDTH, TILE_HEIGHT, GRADIENTS (0 or 1: write three more maps), given by the family.
//
// Five maps are filtered for each channel: the images, their squares and their product.
#pragma once

#define WINDOW 11
#define RADIUS (WINDOW / 2)
#define MAPS 5
#define PATCH_WIDTH (TILE_WIDTH + WINDOW - 1)
#define PATCH_HEIGHT (TILE_HEIGHT + WINDOW - 1)
#define LANES 32

#if GRADIENTS
#define SSIM_PARAMETERS                                                                                              \
    float *__restrict__ map, float *__restrict__ dm_dmu1, float *__restrict__ dm_dsigma1_sq,                         \
        float *__restrict__ dm_dsigma12, const float *__restrict__ image1, const float *__restrict__ image2,         \
        int channels, int height, int width
#define SSIM_OUTPUTS Outputs{{map, dm_dmu1, dm_dsigma1_sq, dm_dsigma12}}
#define OUTPUT_MAPS 4
#else
#define SSIM_PARAMETERS                                                                                              \
    float *__restrict__ map, const float *__restrict__ image1, const float *__restrict__ image2, int channels,       \
        int height, int width
#define SSIM_OUTPUTS Outputs{{map}}
#define OUTPUT_MAPS 1
#endif

#define LUMINANCE_CONSTANT 0.0001f  // C1 = (0.01 L)^2 with the range L = 1
#define CONTRAST_CONSTANT 0.0009f   // C2 = (0.03 L)^2

struct Outputs {
    float *maps[OUTPUT_MAPS];
};

// Tap `tap` of the Gaussian window with a standard deviation of 1.5, normalised to a sum of 1.
__device__ __forceinline__ constexpr float window_tap(int tap)
{
    const float half[RADIUS + 1] = {0.001028380124f, 0.007598758291f, 0.03600077213f,
                                    0.1093606895f,   0.2130055377f,   0.2660117249f};
    return half[tap <= RADIUS ? tap : WINDOW - 1 - tap];
}

// Denominators are at least 1e-4, so neither the slow path for subnormal numbers nor the last half unit is needed.
__device__ __forceinline__ float reciprocal(float value)
{
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

// Similarity of one pixel, and its partial derivatives with respect to the filtered maps mu1, image1^2 and
// image1 * image2, from the five filtered maps. Multiplications and additions are not contracted, so that the executed
// fused multiply-adds are those of the two passes alone and can be compared with their closed form.
__device__ __forceinline__ void similarity(const float (&filtered)[MAPS], float (&result)[OUTPUT_MAPS])
{
    const float mu1 = filtered[0], mu2 = filtered[2];
    const float mu1_sq = __fmul_rn(mu1, mu1), mu2_sq = __fmul_rn(mu2, mu2), mu12 = __fmul_rn(mu1, mu2);
    const float sigma_sum = __fadd_rn(__fadd_rn(filtered[1], -mu1_sq), __fadd_rn(filtered[3], -mu2_sq));
    const float sigma12 = __fadd_rn(filtered[4], -mu12);
    const float a = __fadd_rn(__fadd_rn(mu1_sq, mu2_sq), LUMINANCE_CONSTANT);
    const float b = __fadd_rn(sigma_sum, CONTRAST_CONSTANT);
    const float c = __fadd_rn(__fadd_rn(mu12, mu12), LUMINANCE_CONSTANT);
    const float d = __fadd_rn(__fadd_rn(sigma12, sigma12), CONTRAST_CONSTANT);
#if GRADIENTS
    const float inverse_a = reciprocal(a), inverse_b = reciprocal(b);
    const float inverse = __fmul_rn(inverse_a, inverse_b);
    const float value = __fmul_rn(__fmul_rn(c, d), inverse);
    const float by_means = __fmul_rn(__fmul_rn(mu2, inverse), __fadd_rn(d, -c));
    const float by_norms = __fmul_rn(__fmul_rn(mu1, value), __fadd_rn(inverse_b, -inverse_a));
    result[0] = value;
    result[1] = __fmul_rn(2.0f, __fadd_rn(by_means, by_norms));
    result[2] = __fmul_rn(-value, inverse_b);
    result[3] = __fmul_rn(2.0f, __fmul_rn(c, inverse));
#else
    result[0] = __fmul_rn(__fmul_rn(c, d), reciprocal(__fmul_rn(a, b)));
#endif
}

__device__ __forceinline__ size_t plane_offset(int channel, int channels, int height, int width)
{
    return ((size_t)blockIdx.z * channels + channel) * height * width;
}
