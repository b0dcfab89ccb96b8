// Encodes directions for a network as the values of real spherical harmonics (Mueller et al. 2022, Instant-NGP). One thread owns
// one direction.
// Launched by splat_cli/field/hash_grid.py. The same in plain NumPy: tests/reference/sh.py.
#include "common.cuh"
#include "raster/sh.cuh"

extern "C" __global__ void sh_encode(
    const float* __restrict__ directions,   // [3, stride] of length 1
    int stride,
    const unsigned* __restrict__ num_rows,  // [1] number of directions
    int degree,                             // 1 to 4: number of bands, including the constant one
    float* __restrict__ features)           // [degree^2, stride]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)*num_rows) return;
    features[i] = SH_C0;
    const float3 d = make_vec(directions[i], directions[stride + i], directions[2 * (size_t)stride + i]);
    sh_visit(degree - 1, d, [&](int k, float y, float3) { features[(size_t)k * stride + i] = y; });
}
