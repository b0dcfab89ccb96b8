// Width of each splat's 3D smoothing filter: width * (smallest pixel footprint at the splat in any training view) (Mip-Splatting, Yu et
// al. 2024, sec. 5.1, equation 7). One thread owns one splat and loops over all views.
// Launched by splat_cli/render/project.py. The same in plain NumPy: tests/reference/smooth_3d.py.
#include "raster/projection.cuh"
#ifdef LENS
#include "lens/lens.cuh"
#endif

#ifdef LENS
// Size of a pixel at t (camera coordinates) along the axis of the image that is sampled more finely, world units; 0: not in the image.
__device__ __forceinline__ float footprint(const Camera& k, float3 t)
{
    const LensModel& lens = lens_of(k);
    if (!lens_sees(lens, t)) return 0.0f;
    const Place p = lens_place(lens, k, t), x_axis = {1.0f, 0.0f}, y_axis = {0.0f, 1.0f};
    const float x = p.x + k.cx - 0.5f * k.width, y = p.y + k.cy - 0.5f * k.height;
    if (!(fabsf(x) < 0.65f * k.width && fabsf(y) < 0.65f * k.height)) return 0.0f;
    const float3 by_x = lens_backward(lens, k, t, x_axis), by_y = lens_backward(lens, k, t, y_axis);
    return rsqrtf(fmaxf(dot(by_x, by_x), dot(by_y, by_y)));
}
#endif

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
#ifdef LENS
        const float size = footprint(k, t);
        if (size > 0.0f) finest = fminf(finest, size);
#else
        const float x = k.fx * t.x + (k.cx - 0.5f * k.width) * t.z;     // relative to the middle of the image, times z
        const float y = k.fy * t.y + (k.cy - 0.5f * k.height) * t.z;
        const bool seen = t.z > NEAR_PLANE && fabsf(x) < 0.65f * k.width * t.z && fabsf(y) < 0.65f * k.height * t.z;
        if (seen) finest = fminf(finest, t.z / fmaxf(k.fx, k.fy));
#endif
    }
    sigmas[i] = finest < 1e30f ? width * finest : 0.0f;
}
