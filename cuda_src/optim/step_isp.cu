// Adam step of the ISP of one photograph and of its camera (see isp.cuh). A plain kernel; those in isp.cu are lane kernels.
// Launched by splat_cli/joint/appearance/isp.py. The same in plain NumPy: tests/reference/isp.py.
#include "optim/isp.cuh"
#include "optim/per_view.cuh"

#define LN2 0.69314718f
#define EXPOSURE_RATE 2.5f          // factor of the learning rate of photographs: exposures vary more than colours and are easier to estimate
#define COLOR_RATE 0.5f

// Gradient of a photograph's value k, from the summed gradients of m = 2^exposure (I + D). Reads every stride-th element of `sums`.
__device__ __forceinline__ float photo_gradient(const float* photo /* [PHOTO_VALUES] */, const float* sums /* [.., stride] */, int stride, int k)
{
    const float gain = exp2f(photo[0]);
    if (k > 0) return gain * sums[(k - 1) * stride];
    float sum = 0.0f;
    for (int i = 0; i < MATRIX_VALUES; ++i) sum += sums[i * stride] * (photo[1 + i] + (i % 5 == 0 ? 1.0f : 0.0f));
    return LN2 * gain * sum;
}

// Limits b1 and b2 so that a channel's curve rises everywhere.
__device__ __forceinline__ void limit_curvature(float* b /* [2] */)
{
    const float factor = MAX_CURVATURE / fmaxf(fabsf(b[0]) + fabsf(b[1]), MAX_CURVATURE);
    b[0] *= factor; b[1] *= factor;
}

// One block owns the current view and its camera: sums the gradients, adds those of the weighted squared values, and updates the
// values. A thread takes every n-th value.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) step_isp(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ d_isp,        // [num_rows, ISP_SUMS] from apply_isp_backward
    const int* __restrict__ camera_from_view,   // [num_views]
    int num_rows, int num_views,
    float photo_weight, float camera_weight,
    float photo_lr, float photo_lr_final,
    float camera_lr, float camera_lr_final,
    int max_steps,
    float* __restrict__ photo_params,       // [num_views, 3, PHOTO_VALUES]
    float* __restrict__ camera_params,      // [num_cameras, 3, CAMERA_VALUES]
    float* __restrict__ camera_steps)       // [num_cameras] number of steps of each camera
{
    __shared__ float shared[ISP_SUMS * SUM_THREADS];
    __shared__ float gradients[PHOTO_VALUES + CAMERA_VALUES];
    if (state->overflowed || !loss_is_finite(*state)) return;
    const int view = state->view, camera = camera_from_view[view];
    float* photo = photo_params + (size_t)view * 3 * PHOTO_VALUES;
    float* values = camera_params + (size_t)camera * 3 * CAMERA_VALUES;
    float sums[ISP_SUMS], size = 0.0f;
    sum_rows<ISP_SUMS>(shared, d_isp, num_rows, sums);
    for (int k = 0; k < ISP_SUMS; ++k) size += fabsf(sums[k]);
    if (!(size < 1e18f)) return;
    for (int k = threadIdx.x; k < PHOTO_VALUES; k += blockDim.x)
        gradients[k] = photo_gradient(photo, shared, blockDim.x, k) + 2.0f * photo_weight * photo[k];
    for (int k = threadIdx.x; k < CAMERA_VALUES; k += blockDim.x)
        gradients[PHOTO_VALUES + k] = shared[(MATRIX_VALUES + k) * blockDim.x] + 2.0f * camera_weight * values[k];
    __syncthreads();                        // values are changed from here on
    const IterState photo_bias = with_bias_of_view(*state, num_views);
    const IterState camera_bias = with_bias(*state, camera_steps[camera] + 1.0f);
    const float photo_rate = decayed(photo_lr, photo_lr_final, *state, max_steps);
    const float camera_rate = decayed(camera_lr, camera_lr_final, *state, max_steps);
    for (int k = threadIdx.x; k < PHOTO_VALUES; k += blockDim.x)
        adam_update(photo[k], photo[PHOTO_VALUES + k], photo[2 * PHOTO_VALUES + k], gradients[k],
                    (k == 0 ? EXPOSURE_RATE : COLOR_RATE) * photo_rate, photo_bias);
    for (int k = threadIdx.x; k < CAMERA_VALUES; k += blockDim.x)
        adam_update(values[k], values[CAMERA_VALUES + k], values[2 * CAMERA_VALUES + k], gradients[PHOTO_VALUES + k],
                    camera_rate, camera_bias);
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int c = 0; c < 3; ++c) limit_curvature(values + c * CHANNEL_VALUES + 3);
    camera_steps[camera] += 1.0f;
}
