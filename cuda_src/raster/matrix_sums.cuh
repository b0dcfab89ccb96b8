// The sums of blend_backward over a warp's 8x8 pixels as a product of matrices, for tensor cores.
//
// Of MATRIX_SPLATS splats (n) and 64 pixels (k): G[n, k] = dL/dpower and W[n, k] = alpha T. With (x, y) of a pixel from the middle of the 8x8
// and D[k] = dL/d pixel, the features of a pixel are F[k] = (x, y, x^2, x y, y^2, D red, D green, D blue), and
//     [G] F = [moments of G   unused           ]
//     [W]     [unused         gradient of colour]
// The moment of order 0, the sum of G, is added up in float. The product is of tf32, which has the range of a float (with fp16, bright
// splats of scenes with few views cost 0.3 dB): G and W are cut off after 11 significant bits, D is rounded, x to y^2 are exact. G is
// cut off before, so that all moments are those of the same G: about a mean that is far from the middle, they nearly cancel.
//
// A warp holds operands of mma.m16n8k8 as follows (PTX ISA, "Matrix fragments for mma.m16n8k8"), lane = 4 r + q:
//     A [16, 8]   4 registers: (row r, column q), (r+8, q), (r, q+4), (r+8, q+4)
//     B [8, 8]    2 registers: (row q, column r), (q+4, r)
//     C [16, 8]   4 registers: (r, 2q), (r, 2q+1), (r+8, 2q), (r+8, 2q+1)
// Step t of eight takes the two pixels of lanes 4t to 4t+3, the upper ones first: A's registers of a lane are what lane 4t+q has of
// splat r, which goes through shared memory.
#pragma once
#include "raster/mma.cuh"

#define MATRIX_SPLATS 8
#define TERMS_STRIDE 36             // 32 lanes, and 4 more so that 8 lanes load from all banks

struct MatrixBuffer { float4 terms[MATRIX_SPLATS * TERMS_STRIDE]; };   // of a warp, in shared memory: G, W of one pixel, G, W of the other

struct Features { float value[8][2]; };                            // B: of each step, a lane's registers

// Call it before anything else is put into the buffer.
__device__ __forceinline__ Features make_features(
    MatrixBuffer& buffer, int lane, const float (&red)[2], const float (&green)[2], const float (&blue)[2])
{
    float2* d = (float2*)buffer.terms;                             // [3, 32] of both pixels of a lane
    d[lane] = make_float2(round_tf32(red[0]), round_tf32(red[1]));
    d[32 + lane] = make_float2(round_tf32(green[0]), round_tf32(green[1]));
    d[64 + lane] = make_float2(round_tf32(blue[0]), round_tf32(blue[1]));
    __syncwarp();
    Features features;
    const int r = lane >> 2, q = lane & 3;
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        const float x = q + 4 * (t & 1) - 3.5f;
        const float of_x = r == 0 || r == 3 ? x : r == 2 ? x * x : 1.0f;
        const float2 mine = d[32 * max(r - 5, 0) + 4 * t + q];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const float y = (t >> 1) + 4 * k - 3.5f;
            const float of_y = r == 1 || r == 3 ? y : r == 4 ? y * y : 1.0f;
            features.value[t][k] = r < 5 ? of_x * of_y : k == 0 ? mine.x : mine.y;
        }
    }
    __syncwarp();
    return features;
}

// What a lane's two pixels add to the sums of a splat, number n of the buffer: MatrixBuffer::terms[TERMS_STRIDE * n + lane].
__device__ __forceinline__ float4 matrix_terms(const float (&g)[2], const float (&weight)[2])
{
    return make_float4(cut_tf32(g[0]), weight[0], cut_tf32(g[1]), weight[1]);
}

struct MatrixSums {                 // of lane 4 r + q, for splat r of the buffer
    float g;                        // the sum of G
    float pair[2];                  // q = 0: moments x, y; 1: x^2, x y; 2: y^2, red; 3: green, blue
};

// All lanes of a warp call it when they have put their terms; splats that were not put have sums without meaning. (x, y): mean of
// splat lane / 4 of the buffer, from the middle of the 8x8. Moments are about this mean: with f = (x, y), S(e - f) = S(e) - f S(1) and
// S((e1 - f1) (e2 - f2)) = S(e1 e2) - f1 S(e2) - f2 S(e1 - f1).
__device__ __forceinline__ MatrixSums sum_terms(const MatrixBuffer& buffer, const Features& features, int lane, float x, float y)
{
    float c[4] = {}, g = 0.0f;
    __syncwarp();
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        const float4 terms = buffer.terms[(lane >> 2) * TERMS_STRIDE + 4 * t + (lane & 3)];
        mma(c, terms, features.value[t]);
        g += terms.x + terms.z;
    }
    __syncwarp();
    g += __shfl_xor_sync(0xffffffffu, g, 1);
    g += __shfl_xor_sync(0xffffffffu, g, 2);
    const int q = lane & 3;
    const float gx = __shfl_sync(0xffffffffu, c[0], lane - q), gy = __shfl_sync(0xffffffffu, c[1], lane - q);
    const float about_x = gx - x * g, about_y = gy - y * g;
    const float factor = q == 2 ? y : x, moment = q == 0 ? g : q == 1 ? gx + about_x : gy + about_y;
    MatrixSums sums;
    sums.g = g;
    sums.pair[0] = q == 3 ? c[2] : c[0] - factor * moment;
    sums.pair[1] = q == 0 ? about_y : q == 1 ? c[1] - x * gy - y * about_x : c[3];
    return sums;
}
