// Losses of a network's outputs against targets, and the gradient of a sigmoid as its last activation. One lane owns one row;
// blockIdx.y is the channel.
// Launched by splat_cli/field/network.py. The same in plain NumPy: tests/reference/network.py.
#include "common.cuh"
#include "lanes.cuh"

enum { L2 = 0, RELATIVE_L2 = 1, HUBER = 2 };
#define RELATIVE_EPSILON 0.01f              // Mueller et al. 2022, sec. 5.4

extern "C" __global__ void regression_loss(
    const float* __restrict__ outputs,      // [>= num_channels, stride]
    const float* __restrict__ targets,      // [num_channels, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    int kind,                               // 0 L2, 1 relative L2, 2 Huber
    float delta,                            // Huber's loss is linear beyond it
    float* __restrict__ loss,               // [1] accumulated: mean over rows and channels
    float* __restrict__ d_outputs)          // [>= num_channels, stride]
{
    const int n = *num_rows, row = (blockIdx.x * blockDim.y + threadIdx.y) * 32;
    if (row >= n) return;
    const vbool used = row + lane_id() < n;
    const size_t plane = (size_t)blockIdx.y * stride + row;
    const vfloat y = load_row(outputs + plane, used), error = y - load_row(targets + plane, used);
    const float share = 1.0f / ((float)n * gridDim.y);
    vfloat value = error * error, slope = 2.0f * error;
    if (kind == RELATIVE_L2) {                      // the denominator is treated as a constant
        const vfloat scale = vrcp(y * y + RELATIVE_EPSILON);
        value = value * scale;
        slope = slope * scale;
    }
    if (kind == HUBER) {
        const vfloat size = vabs(error);
        const vbool near = size <= delta;
        value = select(near, 0.5f * error * error, delta * (size - 0.5f * delta));
        slope = select(near, error, select(error > 0.0f, delta, -delta));
    }
    store_row(d_outputs + plane, share * slope, used);
    const float sum = warp_sum(select(used, value, vfloat(0.0f)));
    if (leader()) atomicAdd(loss, share * sum);
}

extern "C" __global__ void sigmoid_backward(
    const float* __restrict__ outputs,      // [num_channels, stride] after the sigmoid
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    float* __restrict__ d_outputs)          // [num_channels, stride] in: after the sigmoid; out: before it
{
    const int n = *num_rows, row = (blockIdx.x * blockDim.y + threadIdx.y) * 32;
    if (row >= n) return;
    const vbool used = row + lane_id() < n;
    const size_t plane = (size_t)blockIdx.y * stride + row;
    const vfloat y = load_row(outputs + plane, used);
    store_row(d_outputs + plane, load_row(d_outputs + plane, used) * y * (1.0f - y), used);
}
