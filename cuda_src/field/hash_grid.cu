// Multiresolution hash encoding of points in the unit square or cube (Mueller et al. 2022, Instant-NGP, sec. 3).
//
//     feature[l][f] = sum over the 2^DIM corners c of the cell around the point at level l of weight(c) table_l[entry(c)][f]
//
// weight: multilinear interpolation. entry: a hash of the corner's coordinates, or its plain index if the table is large enough.
//
// One thread owns one point at one level (blockIdx.y): blocks that run at the same time share a level's table in the cache.
// Launched by splat_cli/field/hash_grid.py. The same in plain NumPy: tests/reference/hash_grid.py.
#include "common.cuh"
#include "field/half.cuh"

#ifndef DIM
#define DIM 3                       // 2 or 3
#endif
#ifndef FEATURES
#define FEATURES 2                  // values per entry: 1, 2 or 4
#endif

// One level of the grid. field/hash_grid.py mirrors this layout.
struct Level {
    int resolution;                 // cells per axis
    unsigned size;                  // number of entries in its table
    unsigned offset;                // number of entries in the tables before it
    int hashed;                     // 0: the table has an entry for every corner, and nothing is hashed
};

// The cell around a point, and the point's position within it.
struct Cell {
    unsigned corner[DIM];
    float fraction[DIM];
};

__device__ __forceinline__ Cell cell_of(const float* __restrict__ positions /* [DIM, stride] */, int stride, int i, const Level& level)
{
    Cell cell;
    for (int axis = 0; axis < DIM; ++axis) {
        const float x = fminf(fmaxf(positions[(size_t)axis * stride + i], 0.0f), 1.0f) * level.resolution;  // NaN becomes 0
        const int corner = min((int)x, level.resolution - 1);
        cell.corner[axis] = corner;
        cell.fraction[axis] = x - corner;
    }
    return cell;
}

// Index of a corner's entry. Bit k of `corner`: lower or upper side along axis k.
__device__ __forceinline__ unsigned entry_of(const Cell& cell, const Level& level, int corner)
{
    const unsigned primes[3] = {1u, 2654435761u, 805459861u};
    unsigned index = 0, stride = 1;
    for (int axis = 0; axis < DIM; ++axis) {
        const unsigned c = cell.corner[axis] + (corner >> axis & 1);
        index = level.hashed ? index ^ (c * primes[axis]) : index + c * stride;
        stride *= level.resolution + 1;
    }
    return level.offset + (level.hashed ? index % level.size : index);
}

// Interpolation weight of a corner.
__device__ __forceinline__ float weight_of(const Cell& cell, int corner)
{
    float weight = 1.0f;
    for (int axis = 0; axis < DIM; ++axis) weight *= corner >> axis & 1 ? cell.fraction[axis] : 1.0f - cell.fraction[axis];
    return weight;
}

struct alignas(4 * FEATURES) Entry { float value[FEATURES]; };
struct alignas(2 * FEATURES) HalfEntry { unsigned short value[FEATURES]; };

__device__ __forceinline__ Entry load_entry(const void* __restrict__ tables /* [entries, FEATURES] */, unsigned entry)
{
#ifdef HALF_TABLES
    const HalfEntry halves = ((const HalfEntry*)tables)[entry];
    Entry result;
    for (int f = 0; f < FEATURES; ++f) result.value[f] = half_to_float(halves.value[f]);
    return result;
#else
    return ((const Entry*)tables)[entry];
#endif
}

// Adds all values of an entry with one atomic if the GPU can.
__device__ __forceinline__ void add_entry(float* entry /* [FEATURES] */, const float (&v)[FEATURES])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && FEATURES == 2
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(entry), "f"(v[0]), "f"(v[1]) : "memory");
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && FEATURES == 4
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(entry), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
#else
    for (int f = 0; f < FEATURES; ++f) atomicAdd(entry + f, v[f]);
#endif
}

extern "C" __global__ void hash_encode(
    const float* __restrict__ positions,    // [DIM, stride] 0 to 1; points outside are moved to the border
    int stride,
    const unsigned* __restrict__ num_rows,  // [1] number of points
    const Level* __restrict__ levels,       // [num_levels]
    const void* __restrict__ tables,        // [entries, FEATURES] float; half with HALF_TABLES
    float* __restrict__ features)           // [num_levels * FEATURES, stride]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)*num_rows) return;
    const Level level = levels[blockIdx.y];
    const Cell cell = cell_of(positions, stride, i, level);
    float sum[FEATURES] = {};
#pragma unroll
    for (int corner = 0; corner < 1 << DIM; ++corner) {
        const Entry entry = load_entry(tables, entry_of(cell, level, corner));
        const float weight = weight_of(cell, corner);
        for (int f = 0; f < FEATURES; ++f) sum[f] += weight * entry.value[f];
    }
    for (int f = 0; f < FEATURES; ++f) features[(size_t)(blockIdx.y * FEATURES + f) * stride + i] = sum[f];
}

extern "C" __global__ void hash_encode_backward(
    const float* __restrict__ positions,    // [DIM, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const Level* __restrict__ levels,       // [num_levels]
    const float* __restrict__ d_features,   // [num_levels * FEATURES, stride]
    float* __restrict__ d_tables)           // [entries, FEATURES] accumulated
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)*num_rows) return;
    float d[FEATURES], size = 0.0f;
    for (int f = 0; f < FEATURES; ++f) {
        d[f] = d_features[(size_t)(blockIdx.y * FEATURES + f) * stride + i];
        size += fabsf(d[f]);
    }
    if (size == 0.0f) return;
    const Level level = levels[blockIdx.y];
    const Cell cell = cell_of(positions, stride, i, level);
#pragma unroll
    for (int corner = 0; corner < 1 << DIM; ++corner) {
        const float weight = weight_of(cell, corner);
        float v[FEATURES];
        for (int f = 0; f < FEATURES; ++f) v[f] = weight * d[f];
        add_entry(d_tables + (size_t)entry_of(cell, level, corner) * FEATURES, v);
    }
}
