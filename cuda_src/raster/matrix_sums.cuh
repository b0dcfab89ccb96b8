// The sums of blend_backward over a warp's 8x8 pixels as products of matrices, for tensor cores.
//
// Of COLUMNS splats (n) and 64 pixels (k): G[k, n] = dL/dpower and W[k, n] = alpha T. Wanted are
//     moments [6, n] = Phi^T G      Phi[k] = (1, x, y, x^2, x y, y^2) of a pixel from the middle of the 8x8: exact in bf16
//     colours [3, n] = D^T W        D[k] = dL/d pixel
// G, W and D are each the sum of two bf16, high + low, which leaves an error of 2^-17 of a value. Both products have the same first
// operand A: rows 0 to 5 are Phi^T, rows 8 to 10 the high and 11 to 13 the low parts of D^T.
//
// A warp holds operands of mma.m16n8k16 as follows (PTX ISA, "Matrix fragments for mma.m16n8k16"), lane = 4 r + q:
//     A [16, 16]  4 registers: (row r, columns 2q 2q+1), (r+8, 2q 2q+1), (r, 2q+8 2q+9), (r+8, 2q+8 2q+9)
//     B [16, 8]   2 registers: (rows 2q 2q+1, column r), (2q+8 2q+9, r)
//     C [16, 8]   4 registers: (r, 2q), (r, 2q+1), (r+8, 2q), (r+8, 2q+1)
// A lane's two pixels are neighbours in k; step t of four takes those of lanes 8t to 8t+7, which are the pixels of rows t and t+4.
// So B's registers of a lane are what lanes 8t+q and 8t+4+q have of splat r: they go through shared memory.
#pragma once
#include "raster/mma.cuh"

#define COLUMNS 8
#define COLUMN_STRIDE 36            // 32 lanes, and 4 more so that 8 lanes load from all banks

struct MatrixBuffer { uint4 column[COLUMNS * COLUMN_STRIDE]; };    // of a warp, in shared memory: G high, G low, W high, W low

struct Parts { unsigned high, low; };                              // of two values, as bf16

__device__ __forceinline__ Parts split_bf16(float first, float second)
{
    Parts p;
    p.high = pack_bf16(first, second);
    p.low = pack_bf16(first - __uint_as_float(p.high << 16), second - __uint_as_float(p.high & 0xffff0000u));
    return p;
}

// Row `r` of Phi^T at a pixel.
__device__ __forceinline__ float phi(int r, float x, float y)
{
    return r == 0 ? 1.0f : r == 1 ? x : r == 2 ? y : r == 3 ? x * x : r == 4 ? x * y : r == 5 ? y * y : 0.0f;
}

struct FirstOperand { unsigned a[4][4]; };                         // A: of each step, a lane's registers

// Call it before anything else is put into the buffer.
__device__ __forceinline__ FirstOperand make_first_operand(
    MatrixBuffer& buffer, int lane, const float (&red)[2], const float (&green)[2], const float (&blue)[2])
{
    unsigned* parts = (unsigned*)buffer.column;                    // [6, 32] of D^T
    const Parts d[3] = {split_bf16(red[0], red[1]), split_bf16(green[0], green[1]), split_bf16(blue[0], blue[1])};
    for (int c = 0; c < 3; ++c) {
        parts[32 * c + lane] = d[c].high;
        parts[32 * (c + 3) + lane] = d[c].low;
    }
    __syncwarp();
    FirstOperand first;
    const int r = lane >> 2, q = lane & 3;
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float x = q + 4 * half - 3.5f, y = t - 3.5f;
            first.a[t][2 * half] = pack_bf16(phi(r, x, y), phi(r, x, y + 4.0f));
            first.a[t][2 * half + 1] = r < 6 ? parts[32 * r + 8 * t + 4 * half + q] : 0u;
        }
    __syncwarp();
    return first;
}

// What a lane's two pixels add to the sums of the splat in a column.
__device__ __forceinline__ void put_column(MatrixBuffer& buffer, int column, int lane, const float (&g)[2], const float (&weight)[2])
{
    const Parts a = split_bf16(g[0], g[1]), b = split_bf16(weight[0], weight[1]);
    uint4 parts;
    parts.x = a.high; parts.y = a.low; parts.z = b.high; parts.w = b.low;
    buffer.column[column * COLUMN_STRIDE + lane] = parts;
}

struct ColumnSums {                 // of lane 4 r + q, for columns 2q and 2q + 1
    float moment[2];                // r < 6: row r of Phi^T G
    float color[2];                 // r < 3: channel r
};

// All lanes of a warp call it when they have put their columns; columns that were not put give sums without meaning.
__device__ __forceinline__ ColumnSums sum_columns(const MatrixBuffer& buffer, const FirstOperand& first, int lane)
{
    float g[4] = {}, w[4] = {};
    __syncwarp();
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        const uint4* parts = buffer.column + (lane >> 2) * COLUMN_STRIDE + 8 * t + (lane & 3);
        const uint4 b0 = parts[0], b1 = parts[4];
        mma(g, first.a[t], b0.x, b1.x);
        mma(g, first.a[t], b0.y, b1.y);
        mma(w, first.a[t], b0.z, b1.z);
        mma(w, first.a[t], b0.w, b1.w);
    }
    __syncwarp();
    ColumnSums sums;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        sums.moment[e] = g[e];
        sums.color[e] = w[2 + e] + __shfl_down_sync(0xffffffffu, w[2 + e], 12);     // high and low parts of D
    }
    return sums;
}

// A moment about the middle of the 8x8 made one about a splat's mean, (x, y) from that middle. Row r is a product of two of
// (1, x, y), e1 e2, and S(e1 e2) becomes S((e1 - f1) (e2 - f2)) = S(e1 e2) - f1 S(e2) - f2 (S(e1) - f1 S(1)).
__device__ __forceinline__ float about_mean(float moment, int lane, float x, float y)
{
    const int r = lane >> 2, q = lane & 3;
    const int row1 = r == 3 || r == 4 ? 1 : r == 5 ? 2 : 0, row2 = r == 3 ? 1 : r == 4 || r == 5 ? 2 : 0;
    const float f1 = r == 1 || r == 3 || r == 4 ? x : r == 2 || r == 5 ? y : 0.0f;
    const float f2 = r == 3 ? x : r == 4 || r == 5 ? y : 0.0f;
    const float s0 = __shfl_sync(0xffffffffu, moment, q), s1 = __shfl_sync(0xffffffffu, moment, 4 * row1 + q);
    const float s2 = __shfl_sync(0xffffffffu, moment, 4 * row2 + q);
    return moment - f1 * s2 - f2 * (s1 - f1 * s0);
}
