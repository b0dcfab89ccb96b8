// Adam step of one photograph's bilateral grid (see bilateral_grid.cu). It takes two launches, because the regulariser compares
// neighbouring values, and all must be read before one changes. One thread owns one value.
// Launched by splat_cli/joint/appearance/bilateral_grid.py. The same in plain NumPy: tests/reference/bilateral_grid.py.
#include "optim/bilateral_grid.cuh"
#include "optim/per_view.cuh"

// Gradient of one value: the sums of up to four patches, in a fixed order, plus the gradient of
// smoothness * (mean squared difference of neighbours in x + the same in y + the same in luminance).
extern "C" __global__ void bilateral_grid_gradient(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ d_patches,    // [PATCHES_Y, PATCHES_X, GRID_LEVELS, CORNERS, AFFINE] from apply_bilateral_grid_backward
    float smoothness,
    const float* __restrict__ grids,        // [num_views, 3, GRID_VALUES]
    float* __restrict__ d_grid)             // [GRID_VALUES]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= GRID_VALUES || state->overflowed) return;
    const int k = i % AFFINE, x = i / AFFINE % GRID_WIDTH, y = i / (AFFINE * GRID_WIDTH) % GRID_HEIGHT;
    const int z = i / (AFFINE * GRID_WIDTH * GRID_HEIGHT);
    float sum = 0.0f;
    for (int corner = 0; corner < CORNERS; ++corner) {
        const int px = x - corner % 2, py = y - corner / 2;     // the patch that has this node as its corner `corner`
        if (px < 0 || py < 0 || px >= PATCHES_X || py >= PATCHES_Y) continue;
        sum += d_patches[(((size_t)py * PATCHES_X + px) * GRID_LEVELS + z) * (CORNERS * AFFINE) + corner * AFFINE + k];
    }
    const float* value = grids + (size_t)state->view * 3 * GRID_VALUES + i;
    const int places[3] = {x, y, z}, sizes[3] = {GRID_WIDTH, GRID_HEIGHT, GRID_LEVELS};
    const int strides[3] = {AFFINE, AFFINE * GRID_WIDTH, AFFINE * GRID_WIDTH * GRID_HEIGHT};
    for (int axis = 0; axis < 3; ++axis) {
        float roughness = 0.0f;
        if (places[axis] > 0) roughness += value[0] - value[-strides[axis]];
        if (places[axis] < sizes[axis] - 1) roughness += value[0] - value[strides[axis]];
        const float num_differences = (float)(GRID_VALUES / sizes[axis] * (sizes[axis] - 1));
        sum += 2.0f * smoothness / num_differences * roughness;
    }
    d_grid[i] = sum;
}

extern "C" __global__ void step_bilateral_grid(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ d_grid,       // [GRID_VALUES]
    int num_views,
    float lr, float lr_final,
    int max_steps,
    float* __restrict__ grids)              // [num_views, 3, GRID_VALUES]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= GRID_VALUES || state->overflowed || !loss_is_finite(*state)) return;
    if (!is_finite(d_grid[i])) return;
    const IterState own = with_bias_of_view(*state, num_views);
    float* value = grids + (size_t)state->view * 3 * GRID_VALUES + i;
    adam_update(value[0], value[GRID_VALUES], value[2 * GRID_VALUES], d_grid[i], decayed(lr, lr_final, *state, max_steps), own);
}
