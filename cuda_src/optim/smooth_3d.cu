// Width of each splat's 3D smoothing filter: width * (smallest pixel footprint at the splat in any training view) (Mip-Splatting, Yu et
// al. 2024, sec. 5.1, equation 7). One thread owns one splat and loops over all views.
#include "raster/projection.cuh"

extern "C" __global__ void smooth_3d_sigmas(
    const Camera* __restrict__ cameras,     // [num_views]
    int num_views,
    const float* __restrict__ params,       // [rows, capacity]
    int capacity, int num_splats,
    float width,                            // standard deviation, in pixel widths at the splat's depth
    float* __restrict__ sigmas)             // [capacity] standard deviation, world units; 0 if no view sees the splat
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_splats) return;
    const float3 mean = make_vec(params[i], params[(size_t)capacity + i], params[2 * (size_t)capacity + i]);
    float finest = 1e30f;
    for (int view = 0; view < num_views; ++view) {
        const Camera& k = cameras[view];
        const float3 t = to_camera(k, mean);
        const float x = k.fx * t.x + (k.cx - 0.5f * k.width) * t.z;     // relative to the middle of the image, times z
        const float y = k.fy * t.y + (k.cy - 0.5f * k.height) * t.z;
        const bool seen = t.z > NEAR_PLANE && fabsf(x) < 0.65f * k.width * t.z && fabsf(y) < 0.65f * k.height * t.z;
        if (seen) finest = fminf(finest, t.z / fmaxf(k.fx, k.fy));
    }
    sigmas[i] = finest < 1e30f ? width * finest : 0.0f;
}
