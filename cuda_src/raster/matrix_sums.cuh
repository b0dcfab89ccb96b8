// The sums of blend_backward over a warp's 8x8 pixels as a matrix product, for tensor cores.
//
// For MATRIX_SPLATS splats n and 64 pixels k, let G[n, k] = dL/dpower and W[n, k] = alpha T. Let (x, y) be a pixel's position relative
// to the middle of the 8x8 pixels, and D = dL/d pixel. With the features F[k] = (D blue, x, y, x^2, x y, y^2, D red, D green),
//     [G] F = [unused  moments of G  unused     ]
//     [W]     [blue    unused        red, green ]    gradient of colour
// sum_terms then moves the moments from the middle to the splat's mean.
//
// Example: one splat with mean (0.5, -0.5), two pixels with G or W.
//     pixel (x, y)     G   W          F: D blue   x     y    x^2   x y    y^2
//     ( 1.5, 0.5)      2   0.5           4        1.5   0.5  2.25   0.75  0.25
//     (-0.5, 2.5)      3   0.25          8       -0.5   2.5  0.25  -1.25  6.25
//     G F = (..., 1.5, 8.5, 5.25, -2.25, 19.25, ...), W F = (4, ...), and the sum of G is S = 5.
//     About the mean, where the pixels are (1, 1) and (-1, 3):
//         gx = 1.5 - 0.5 S = -1                            = 2 * 1 + 3 * -1
//         gy = 8.5 + 0.5 S = 11                            = 2 * 1 + 3 * 3
//         gxx = 5.25 - 0.5 * 1.5 - 0.5 gx = 5              = 2 * 1 + 3 * 1
//         gxy = -2.25 - 0.5 * 8.5 + 0.5 gx = -7            = 2 * 1 + 3 * -3
//         gyy = 19.25 + 0.5 * 8.5 + 0.5 gy = 29            = 2 * 1 + 3 * 9
//
// Precision. The products are of tf32, which has the range of a float (with fp16, bright splats of scenes with few views lost
// 0.3 dB). Tensor cores truncate G and W to 11 significant bits, D is rounded, x to y^2 are exact. S is a product with ones:
// moments about a mean far from the middle nearly cancel, so S and all moments must be sums of the same truncated G.
//
// Registers of mma.m16n8k8 (PTX ISA, "Matrix fragments for mma.m16n8k8"), lane = 4 r + q:
//     A [16, 8]   4 registers: (row r, column q), (r+8, q), (r, q+4), (r+8, q+4)
//     B [8, 8]    2 registers: (row q, column r), (q+4, r)
//     C [16, 8]   4 registers: (r, 2q), (r, 2q+1), (r+8, 2q), (r+8, 2q+1)
// Step t of eight processes the two pixels of each of lanes 4t to 4t+3, the upper pixels first. For A, lane 4 r + q reads the terms of
// lane 4t+q for splat r from shared memory.
#pragma once
#include "raster/mma.cuh"

#define MATRIX_SPLATS 8
#define TERMS_STRIDE 36             // 32 lanes, plus 4 so that 8 lanes load from different banks

struct MatrixBuffer { float4 terms[MATRIX_SPLATS * TERMS_STRIDE]; };   // per warp: G, W of a lane's first pixel, then of its second

struct Features { float value[8][2]; };                            // B: the lane's two registers of each step

// Call this before putting terms into the buffer, which it uses as scratch.
__device__ __forceinline__ Features make_features(
    MatrixBuffer& buffer, int lane, const float (&red)[2], const float (&green)[2], const float (&blue)[2])
{
    float2* d = (float2*)buffer.terms;                             // [3, 32] both pixels of a lane
    d[lane] = make_float2(round_tf32(red[0]), round_tf32(red[1]));
    d[32 + lane] = make_float2(round_tf32(green[0]), round_tf32(green[1]));
    d[64 + lane] = make_float2(round_tf32(blue[0]), round_tf32(blue[1]));
    __syncwarp();
    Features features;
    const int r = lane >> 2, q = lane & 3;
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        const float x = q + 4 * (t & 1) - 3.5f;
        const float of_x = r == 1 || r == 4 ? x : r == 3 ? x * x : 1.0f;
        const float2 mine = d[32 * (r == 0 ? 2 : max(r - 6, 0)) + 4 * t + q];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const float y = (t >> 1) + 4 * k - 3.5f;
            const float of_y = r == 2 || r == 4 ? y : r == 5 ? y * y : 1.0f;
            features.value[t][k] = 1 <= r && r <= 5 ? of_x * of_y : k == 0 ? mine.x : mine.y;
        }
    }
    __syncwarp();
    return features;
}

// The terms of a lane's two pixels. The caller stores those of splat n of the buffer in MatrixBuffer::terms[TERMS_STRIDE * n + lane].
__device__ __forceinline__ float4 matrix_terms(const float (&g)[2], const float (&weight)[2])
{
    return make_float4(g[0], weight[0], g[1], weight[1]);
}

struct MatrixSums {                 // in lane 4 r + q: sums of splat r of the buffer
    float2 pair;                    // q = 0: S, moment x; 1: y, x^2; 2: x y, y^2; 3: red, green
    float blue;                     // q = 0
};

// All lanes of a warp call this after storing their terms. Sums of unused slots of the buffer are undefined. (x, y): mean of splat
// lane / 4 of the buffer, relative to the middle. Shifts the moments to it: with the mean f and the sum S over G, S(e - f) = S(e) - f S(1)
// and S((e1 - f1) (e2 - f2)) = S(e1 e2) - f1 S(e2) - f2 S(e1 - f1).
__device__ __forceinline__ MatrixSums sum_terms(const MatrixBuffer& buffer, const Features& features, int lane, float x, float y)
{
    float c[4] = {}, all[4] = {};
    const float ones[2] = {1.0f, 1.0f};
    __syncwarp();
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        const float4 terms = buffer.terms[(lane >> 2) * TERMS_STRIDE + 4 * t + (lane & 3)];
        mma(c, terms, features.value[t]);
        mma(all, terms, ones);
    }
    __syncwarp();
    const float g = all[0];
    const int q = lane & 3;
    const float gx = __shfl_sync(0xffffffffu, c[1], lane - q), gy = __shfl_sync(0xffffffffu, c[0], lane - q + 1);
    const float about_x = gx - x * g, about_y = gy - y * g;
    const float factor = q == 2 ? y : x, moment = q == 0 ? g : q == 1 ? gx + about_x : gy + about_y;
    const float xy = c[0] - x * gy - y * about_x, second = c[1] - factor * moment;  // in all lanes: branches take longer
    MatrixSums sums;
    sums.pair.x = q == 0 ? g : q == 1 ? about_y : q == 2 ? xy : c[2];
    sums.pair.y = q == 3 ? c[3] : second;
    sums.blue = c[2];
    return sums;
}
