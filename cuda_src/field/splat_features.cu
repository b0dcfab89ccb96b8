// Adam step of the splats' feature vectors: learned inputs of the colour field's network, stored as the last rows of the parameters.
// Launched by splat_cli/field/coloring.py. The same in plain NumPy: tests/reference/adam.py.
#include "common.cuh"
#include "lanes.cuh"
#include "optim/splat_adam.cuh"
#include "raster/slots.cuh"
#include "raster/update.cuh"

// One lane owns one feature of one splat. Grid (warps of 32 splats, size), block (32, warps).
extern "C" __global__ void step_features(
    IterState* __restrict__ state,          // [1] counts skipped updates
    const BatchView* __restrict__ views,    // [BATCH]; only with BATCH
    int capacity,
    int first_row,                          // first row of the features in the parameter planes
    int dense,                              // 1: features without a gradient continue with their momentum
    float* __restrict__ d_features,         // [size, capacity] reset to zero
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments)            // [rows, capacity] without rows of view-dependent colours; see optim/moments.cuh
{
    const int first = (blockIdx.x * blockDim.y + threadIdx.y) * 32, n = state->num_splats, row = first_row + blockIdx.y;
    if (first >= n || state->overflowed) return;
    const vbool on = trainable(*state, first);
    const int i = own(first);
    float* const own_gradients = d_features + (size_t)blockIdx.y * capacity + i;
    const vfloat d = load_own(own_gradients, on) * (1.0f / NUM_SLOTS);
    store_own(own_gradients, vfloat(0.0f), on);
    if (!losses_are_finite(*state, views)) return;
    const vbool fits = d * d < MAX_SQUARE;
    add_count(&state->skipped_updates, on & !fits);
    const vbool used = on & fits & ((d != 0.0f) | vbool(dense != 0));
    if (!some(used)) return;
    const size_t plane = (size_t)row * capacity + i;
    float* const words = moments + (size_t)(ROW_SHN + blockIdx.y) * capacity + i;
    const vfloat word = load_own(words, used);
    vfloat p = load_own(params + plane, used), m = first_moment(word), v = second_moment(word);
    adam_update(p, m, v, d, state->lr[LR_FIELD_FEATURES], *state);
    store_own(params + plane, p, used);
    store_moments(words, m, v, rounding_seed(*state, first + lane_id()), row, used);
}
