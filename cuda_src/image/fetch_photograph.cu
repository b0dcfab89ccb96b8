// Copies the photograph of a step from host memory (data/training_images.py).
// Launched by splat_cli/data/training_images.py.
#include "common.cuh"

// One thread copies 16 bytes. A row holds the pixels, 3 bytes each, then the mask, if any, 1 byte per pixel.
extern "C" __global__ void fetch_photograph(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float4* __restrict__ rows,        // [num_views, stride]
    float4* __restrict__ place,             // [stride]
    int stride)                             // in 16 bytes
{
    const Camera& camera = cameras[state->view];
    const long long bytes = (long long)camera.width * camera.height * (camera.mask ? 4 : 3);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 16LL < bytes) place[i] = rows[(size_t)state->view * stride + i];
}
