// Morton codes: the bits of a cell's three coordinates, interleaved. One thread owns one point.
// The first num_held points keep their places: their codes are their indices, and all other codes have the highest bit set.
// Launched by splat_cli/gaussians/morton.py.
#include "common.cuh"

#define CELLS 2097151.0             // cells per axis minus 1: 2^21 - 1; gaussians/morton.py mirrors it

// The low 21 bits, with two zero bits after each of them.
__device__ __forceinline__ unsigned long long spread(unsigned long long bits)
{
    bits = (bits | bits << 32) & 0x001F00000000FFFFull;
    bits = (bits | bits << 16) & 0x001F0000FF0000FFull;
    bits = (bits | bits << 8) & 0x100F00F00F00F00Full;
    bits = (bits | bits << 4) & 0x10C30C30C30C30C3ull;
    return (bits | bits << 2) & 0x1249249249249249ull;
}

extern "C" __global__ void morton_codes(
    const float* __restrict__ points,       // [3, capacity]
    int capacity, int num_held, int num,
    const double* __restrict__ bounds,      // [2, 3] lowest corner and size of the cube of cells
    unsigned long long* __restrict__ codes) // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    if (i < num_held) { codes[i] = i; return; }
    unsigned long long code = num_held ? 1ull << 63 : 0;
    for (int k = 0; k < 3; ++k) {
        const double place = (points[(size_t)k * capacity + i] - bounds[k]) / bounds[3 + k];
        code |= spread((unsigned long long)(fmin(fmax(place, 0.0), 1.0) * CELLS)) << k;
    }
    codes[i] = code;
}
