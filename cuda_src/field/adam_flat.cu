// One step of Adam (or of plain gradient descent) on a flat array. One thread updates four values and resets their gradients to
// zero, because the next step adds to them. With BATCH, the gradients are sums over the views of a batch.
// Launched by splat_cli/field/parameters.py. The same in plain NumPy: tests/reference/adam.py.
#include "optim/adam.cuh"
#include "field/half.cuh"
#include "raster/slots.cuh"

#define VALUES 4

extern "C" __global__ void adam_flat(
    IterState* __restrict__ state,          // [1] learning rates, bias corrections; counts skipped updates
    const BatchView* __restrict__ views,    // [BATCH]; only with BATCH
    int rate,                               // index of the learning rate in the state
    float factor,                           // multiplies the learning rate
    int num,                                // number of values, a multiple of 4
    int sparse,                             // 1: a value with a zero gradient keeps its value and moments
    float4* __restrict__ values,            // [num]
    float4* __restrict__ gradients,         // [num] reset to zero
    float4* __restrict__ moments1,          // [num]; null for plain gradient descent
    float4* __restrict__ moments2,          // [num]; null for plain gradient descent
    unsigned short* __restrict__ halves)    // [num] copy of the values in half precision; may be null
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (VALUES * i >= num || state->overflowed) return;
    const float4 d = gradients[i];
    if (d.x == 0.0f && d.y == 0.0f && d.z == 0.0f && d.w == 0.0f) {
        if (sparse) return;
    } else {
        gradients[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    if (!losses_are_finite(*state, views)) return;
    const float mean = 1.0f / NUM_SLOTS, g[VALUES] = {mean * d.x, mean * d.y, mean * d.z, mean * d.w}, lr = factor * state->lr[rate];
    float *p = (float*)&values[i], *m = (float*)&moments1[i], *v = (float*)&moments2[i];
#pragma unroll
    for (int k = 0; k < VALUES; ++k) {
        if (sparse && g[k] == 0.0f) continue;
        if (!(g[k] * g[k] < MAX_SQUARE)) {
            atomicAdd(&state->skipped_updates, 1u);
            continue;
        }
        if (moments1) adam_update(p[k], m[k], v[k], g[k], lr, *state);
        else p[k] -= lr * g[k];
        if (halves) halves[VALUES * i + k] = float_to_half(p[k]);
    }
}
