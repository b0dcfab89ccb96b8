// Refines intrinsics that all photographs of a camera share: a factor of both focal lengths, the principal point and, with
// RADIAL_DISTORTION, coefficients of the distortion that is left in undistorted photographs.
//
// Stores offsets (log factor, x, y, k1, k2) from the given camera:
//     f = f0 exp(log factor)        c = c0 + mean(f0x, f0y) (x, y)        k1 and k2 are added
// These are tangents of angles, so they do not depend on the size of the image.
// Launched by splat_cli/joint/intrinsics.py. The same in plain NumPy: tests/reference/intrinsics.py.
#include "optim/per_view.cuh"
#include "optim/pose.cuh"

struct Intrinsics { float fx, fy, cx, cy, k1, k2; };    // given intrinsics, px; k1, k2: see projection.cuh

__device__ __forceinline__ float mean_focal(const Intrinsics& k) { return 0.5f * (k.fx + k.fy); }

__device__ __forceinline__ void place_intrinsics(Camera& camera, const Intrinsics& given, const float* offset /* [INTRINSICS] */)
{
    const float factor = expf(offset[0]), focal = mean_focal(given);
    camera.fx = factor * given.fx; camera.fy = factor * given.fy;
    camera.cx = given.cx + focal * offset[1]; camera.cy = given.cy + focal * offset[2];
#ifdef RADIAL_DISTORTION
    camera.k1 = given.k1 + offset[3]; camera.k2 = given.k2 + offset[4];
#endif
}

// One block owns the camera of the current view: it sums the gradient, adds that of weight * |offset|^2, updates the offset and changes
// all views of the camera. A step of Adam is about as large as its rate, whatever the gradient, at least in a camera's first steps and if
// few photographs share it. So the rate is limited: no point of the image moves faster than with the rotation of a pose.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) step_intrinsics(
    const IterState* __restrict__ state,    // [1]
    const Intrinsics* __restrict__ given,   // [num_views]
    const int* __restrict__ camera_from_view,   // [num_views]
    const float* __restrict__ d_pose,       // [num_rows, POSE_SUMS] from pose_backward
    int num_rows, int num_views,
    float weight,
    const float* __restrict__ rates,        // [num_cameras] initial learning rates
    float decay,                            // factor of the rates at max_steps, log-linear
    const float* __restrict__ limits,       // [num_cameras, INTRINSICS] moves a corner of the image like a rotation by 1 radian
    float pose_lr, float pose_lr_final,     // radians, as in step_pose
    int max_steps,
    float* __restrict__ offsets,            // [num_cameras, 3, INTRINSICS] offsets; first and second moments
    float* __restrict__ camera_steps,       // [num_cameras] number of steps of each camera
    Camera* __restrict__ cameras)           // [num_views]
{
    __shared__ float shared[POSE_SUMS * SUM_THREADS];
    if (state->overflowed || !loss_is_finite(*state)) return;
    const int camera = camera_from_view[state->view];
    float* row = offsets + (size_t)camera * 3 * INTRINSICS;
    const float rate = rates[camera] * decayed(1.0f, decay, *state, max_steps);     // before the sums, which fill the registers
    const float pose_rate = decayed_late(pose_lr, pose_lr_final, *state, max_steps);
    float sums[POSE_SUMS];
    sum_rows<POSE_SUMS>(shared, d_pose, num_rows, sums);
    if (threadIdx.x == 0) {
        const float focal = mean_focal(given[state->view]), *d = sums + 6;
        const float gradients[INTRINSICS] = {
            d[0] + 2.0f * weight * row[0], focal * d[1] + 2.0f * weight * row[1], focal * d[2] + 2.0f * weight * row[2],
#ifdef RADIAL_DISTORTION
            d[3] + 2.0f * weight * row[3], d[4] + 2.0f * weight * row[4],
#endif
        };
        float lr[INTRINSICS];
        for (int k = 0; k < INTRINSICS; ++k) lr[k] = fminf(rate, pose_rate * limits[camera * INTRINSICS + k]);
        step_row<INTRINSICS>(row, gradients, lr, with_bias(*state, camera_steps[camera] + 1.0f));
        camera_steps[camera] += 1.0f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < num_views; i += blockDim.x)
        if (camera_from_view[i] == camera) place_intrinsics(cameras[i], given[i], row);
}

// Sets each view's intrinsics to those of its camera, after a checkpoint was read or images were resized. One thread owns one view.
extern "C" __global__ void place_all_intrinsics(
    const Intrinsics* __restrict__ given,   // [num_views]
    const int* __restrict__ camera_from_view,   // [num_views]
    int num_views,
    const float* __restrict__ offsets,      // [num_cameras, 3, INTRINSICS]
    Camera* __restrict__ cameras)           // [num_views]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_views) place_intrinsics(cameras[i], given[i], offsets + (size_t)camera_from_view[i] * 3 * INTRINSICS);
}
