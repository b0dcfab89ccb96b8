// Refines camera poses: gradient of the current view's pose, and its Adam step (Lin et al. 2021, "BARF", sec. 4.1).
//
// Stores an offset (rotation, translation) from the original pose (R0, t0):
//     R = exp(rotation) R0        t = exp(rotation) (t0 + translation)
// So points are shifted along the camera's axes, then rotated about its centre. The numbers are small, so float32 holds them precisely.
// Launched by splat_cli/joint/poses.py. The same in plain NumPy: tests/reference/pose.py.
#include "optim/pose.cuh"
#include "optim/per_view.cuh"
#include "raster/geometry_backward.cuh"

// Gradient of a rotation of the current camera about its centre and of a translation, both in its current axes, and of its intrinsics:
// the log of both focal lengths, the principal point in pixels and, with RADIAL_DISTORTION, k1 and k2. A larger focal length moves
// projected means away from the principal point, and changes projected covariances just like larger scales.
// A thread takes every (gridDim * blockDim)-th splat; a block writes one row of sums. Runs before project_backward moves the splats.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) pose_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    int capacity,
    int antialias,                          // 0 or 1
    const float* __restrict__ depths,       // [capacity] 0 if invisible
    const float4* __restrict__ colors,      // [capacity] rgb; 0 if it was clamped
    const float* __restrict__ d_splats,     // [capacity, SPLAT_SUMS] from blend_backward
    const float* __restrict__ params,       // [rows, capacity]
    const float* __restrict__ smooth_3d_sigmas, // [1, capacity] see projection.cuh; may be null
    float* __restrict__ d_pose)             // [gridDim.x, POSE_SUMS] sums of a block: rotation, translation, intrinsics
{
    __shared__ float shared[POSE_SUMS * SUM_THREADS];
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const Mat3 w = world_rotation(camera);
    const size_t stride = capacity;
    float sums[POSE_SUMS] = {};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (int)state->num_splats; i += gridDim.x * blockDim.x) {
        if (!(depths[i] > 0.0f)) continue;
        const SplatSums sums_of_splat = load_sums(d_splats, i, true);
        Gaussian g = load_gaussian(params + i, stride, true);
        if (smooth_3d_sigmas) smooth_3d(g, smooth_3d_sigmas[i]);
        const GeometryGradient d = geometry_backward(g, camera, sums_of_splat, antialias);
        const float3 d_color = unclamped(sums_of_splat, colors[i]);
        const float3 ray = ray_to(g.mean, camera);
        const float3 d_ray = ray_backward(params + i, stride, true, state->sh_degree, ray, rsqrtf(dot(ray, ray)), d_color);
        const float3 translation = mul(w, add(d.mean, d_ray));        // shifting the camera along its axes shifts all splats
#ifdef LENS
        const float focal = d.focal;
#else
        const float3 t = to_camera(camera, g.mean);
        const float moved = (d.d_x * camera.fx * t.x + d.d_y * camera.fy * t.y) / t.z;
        const float focal = (RADIAL ? d.distortion * moved : moved) + d.log_scale.x + d.log_scale.y + d.log_scale.z;
#endif
        const float gradient[POSE_SUMS] = {
            d.rotation.x, d.rotation.y, d.rotation.z, translation.x, translation.y, translation.z, focal, d.d_x, d.d_y,
#ifdef RADIAL_DISTORTION
            d.k1, d.k2
#endif
        };
        float size = 0.0f;
        for (int k = 0; k < POSE_SUMS; ++k) size += fabsf(gradient[k]);
        if (!(size < 1e18f)) continue;                          // project_backward skips such a splat, too
        for (int k = 0; k < POSE_SUMS; ++k) sums[k] += gradient[k];
    }
    block_sum<POSE_SUMS>(shared, sums);
    if (threadIdx.x == 0)
        for (int k = 0; k < POSE_SUMS; ++k) d_pose[blockIdx.x * POSE_SUMS + k] = sums[k];
}

// sin(a) / a, (1 - cos(a)) / a^2 and (a - sin(a)) / a^3 for the angle a of a rotation vector v: coefficients of the exponential map and of
// its derivative (Sola et al. 2018, "A micro Lie theory for state estimation in robotics", appendix B).
struct RotationVector { float3 v; float a, b, c; };

__device__ __forceinline__ RotationVector make_rotation_vector(const float* v /* [3] */)
{
    RotationVector t;
    t.v = make_vec(v[0], v[1], v[2]);
    const float square = dot(t.v, t.v), angle = sqrtf(square);
    const bool small = square < 1e-2f;                          // the quotients would cancel
    t.a = small ? 1.0f - square * (1.0f / 6.0f) * (1.0f - square * 0.05f) : sinf(angle) / angle;
    t.b = small ? 0.5f - square * (1.0f / 24.0f) * (1.0f - square * (1.0f / 30.0f)) : (1.0f - cosf(angle)) / square;
    t.c = small ? (1.0f / 6.0f) - square * (1.0f / 120.0f) * (1.0f - square * (1.0f / 42.0f)) : (angle - sinf(angle)) / (square * angle);
    return t;
}

__device__ __forceinline__ float3 rotated(const RotationVector& t, float sign, float3 x)       // exp(sign v) x
{
    const float3 once = cross(t.v, x);
    return add(x, add(scale(sign * t.a, once), scale(t.b, cross(t.v, once))));
}

// From the gradient in the current axes to that of the offset: rotation by the transposed left Jacobian, translation by rotating back.
__device__ __forceinline__ void offset_backward(const float* offset /* [6] */, float (&d)[6])
{
    const RotationVector t = make_rotation_vector(offset);
    const float3 d_turn = make_vec(d[0], d[1], d[2]), once = cross(t.v, d_turn);
    const float3 by_turn = add(d_turn, add(scale(-t.b, once), scale(t.c, cross(t.v, once))));
    const float3 by_shift = rotated(t, -1.0f, make_vec(d[3], d[4], d[5]));
    d[0] = by_turn.x; d[1] = by_turn.y; d[2] = by_turn.z; d[3] = by_shift.x; d[4] = by_shift.y; d[5] = by_shift.z;
}

__device__ __forceinline__ void place_camera(Camera& camera, const Camera& original, const float* offset /* [6] */)
{
    const RotationVector t = make_rotation_vector(offset);
    const float* o = original.w2c;
    for (int column = 0; column < 4; ++column) {
        float3 x = make_vec(o[column], o[4 + column], o[8 + column]);
        if (column == 3) x = add(x, make_vec(offset[3], offset[4], offset[5]));
        x = rotated(t, 1.0f, x);
        camera.w2c[column] = x.x; camera.w2c[4 + column] = x.y; camera.w2c[8 + column] = x.z;
    }
    const float3 translation = mul_transposed(world_rotation(original), make_vec(offset[3], offset[4], offset[5]));
    camera.position[0] = original.position[0] - translation.x;
    camera.position[1] = original.position[1] - translation.y;
    camera.position[2] = original.position[2] - translation.z;
}

// One block owns the current view: sums the gradient, updates the offset and moves the camera.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) step_pose(
    const IterState* __restrict__ state,    // [1]
    const Camera* __restrict__ originals,   // [num_views]
    Camera* __restrict__ cameras,           // [num_views]
    const float* __restrict__ d_pose,       // [num_rows, POSE_SUMS] from pose_backward
    int num_rows, int num_views,
    float lr, float lr_final,               // radians: constant in the first half of max_steps, then log-linear to lr_final
    float extent,                           // world units of translation per radian of rotation
    int max_steps,
    float* __restrict__ offsets)            // [num_views, 3, 6] offsets (rotation, translation); first and second moments
{
    __shared__ float shared[POSE_SUMS * SUM_THREADS];
    if (state->overflowed || !loss_is_finite(*state)) return;
    float sums[POSE_SUMS], d[6];
    sum_rows<POSE_SUMS>(shared, d_pose, num_rows, sums);
    if (threadIdx.x > 0) return;
    for (int k = 0; k < 6; ++k) d[k] = sums[k];
    float* row = offsets + (size_t)state->view * 18;
    offset_backward(row, d);
    const float rate = decayed_late(lr, lr_final, *state, max_steps), far = rate * extent;
    const float rates[6] = {rate, rate, rate, far, far, far};
    step_view<6>(row, d, rates, *state, num_views);
    place_camera(cameras[state->view], originals[state->view], row);
}

// Moves all cameras to their refined poses, after a checkpoint was read. One thread owns one camera.
extern "C" __global__ void place_cameras(
    const Camera* __restrict__ originals,   // [num_views]
    Camera* __restrict__ cameras,           // [num_views]
    int num_views,
    const float* __restrict__ offsets)      // [num_views, 3, 6]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_views) place_camera(cameras[i], originals[i], offsets + (size_t)i * 18);
}
