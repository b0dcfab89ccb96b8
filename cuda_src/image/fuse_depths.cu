// Truncated signed distances of points to the surfaces that depth maps show, fused over views (Curless and Levoy 1996).
//
// A view measures, along its optical axis, how far a point is in front of the surface at its pixel; negative: behind it.
// Distances are clamped to `truncation`; farther behind a surface, a view knows nothing. The result is the weighted mean over views.
// One thread owns one point and loops over the views.
// Launched by splat_cli/render/depth_fusion.py.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(128) fuse_depths(
    const Camera* __restrict__ cameras,         // [num_views] pinholes
    const long long* __restrict__ begins,       // [num_views] first pixel of each view's maps
    const float* __restrict__ depths,           // [pixels of all views] world units along the optical axis
    const float* __restrict__ weights,          // [pixels of all views] 0: no surface
    const unsigned char* __restrict__ colors,   // [pixels of all views, 3]
    const int* __restrict__ chosen,             // [num_chosen] views that may show the points
    int num_chosen,
    const float* __restrict__ points,           // [num_points, 3] world
    int num_points,
    float truncation,                           // world units
    float* __restrict__ distances,              // [num_points] -1 to 1, in units of `truncation`; 0 without weight
    float* __restrict__ totals,                 // [num_points] sum of weights of the views that know the point
    float* __restrict__ near_totals,            // [num_points] the same of views whose surface is near: within `truncation`
    float* __restrict__ means)                  // [num_points, 3] mean colour of these views, 0 to 255; may be null
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_points) return;
    const float x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
    float total = 0.0f, near_total = 0.0f, sum = 0.0f, red = 0.0f, green = 0.0f, blue = 0.0f;
    for (int k = 0; k < num_chosen; ++k) {
        const Camera& c = cameras[chosen[k]];
        const float depth = c.w2c[8] * x + c.w2c[9] * y + c.w2c[10] * z + c.w2c[11];
        const float u = c.fx * (c.w2c[0] * x + c.w2c[1] * y + c.w2c[2] * z + c.w2c[3]) / depth + c.cx;
        const float v = c.fy * (c.w2c[4] * x + c.w2c[5] * y + c.w2c[6] * z + c.w2c[7]) / depth + c.cy;
        if (!(depth > 0.0f && u >= 0.0f && v >= 0.0f && u < c.width && v < c.height)) continue;
        const long long p = begins[chosen[k]] + (long long)(int)v * c.width + (int)u;
        const float weight = weights[p], distance = depths[p] - depth;
        if (weight <= 0.0f || distance < -truncation) continue;
        total += weight;
        sum += weight * fminf(distance / truncation, 1.0f);
        if (distance > truncation) continue;
        near_total += weight;
        if (means) { red += weight * colors[3 * p]; green += weight * colors[3 * p + 1]; blue += weight * colors[3 * p + 2]; }
    }
    totals[i] = total;
    near_totals[i] = near_total;
    distances[i] = total > 0.0f ? sum / total : 0.0f;
    const float share = near_total > 0.0f ? 1.0f / near_total : 0.0f;
    if (means) { means[3 * i] = red * share; means[3 * i + 1] = green * share; means[3 * i + 2] = blue * share; }
}
