// Refinement of intrinsics that photographs of one camera share: Adam on a factor of both focal lengths, on the principal point and, with
// RADIAL_DISTORTION, on coefficients of the distortion that undistorted photographs still have.
//
// Stored are offsets (log factor, x, y, k1, k2), all 0 for the given camera: f = f0 exp(log factor), c = c0 + f0 (x, y), with the mean of
// both f0 in the shift; k1 and k2 are added. These are tangents of angles, which do not depend on the picture's size.
#include "optim/per_view.cuh"
#include "optim/pose.cuh"

struct Intrinsics { float fx, fy, cx, cy, k1, k2; };    // px, as given; k1 and k2 of radial_distortion.cuh

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

// One block owns the camera of the current view: adds up its gradient and that of weight * |offset|^2, steps its offset and
// changes all of its views. An Adam step has about the size of its rate, whatever the gradient: the first one of a camera, and each of a
// camera that few photographs share. Hence no rate moves a point of the image faster than the pose's rate of rotation does.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) step_intrinsics(
    const IterState* __restrict__ state,    // [1]
    const Intrinsics* __restrict__ given,   // [num_views]
    const int* __restrict__ camera_from_view,   // [num_views]
    const float* __restrict__ d_pose,       // [num_rows, POSE_SUMS] from pose_backward
    int num_rows, int num_views,
    float weight,
    const float* __restrict__ rates,        // [num_cameras] at the start
    float decay,                            // of the rates, log-linear, over max_steps
    const float* __restrict__ limits,       // [num_cameras, INTRINSICS] offset that moves a corner of the image like a rotation by 1 radian
    float pose_lr, float pose_lr_final,     // radians, as in step_pose
    int max_steps,
    float* __restrict__ offsets,            // [num_cameras, 3, INTRINSICS] offsets, first and second moments
    float* __restrict__ camera_steps,       // [num_cameras] number that each camera has taken
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

// A thread owns a view, whose intrinsics become those of its camera: after a checkpoint was read or pictures were resized.
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
