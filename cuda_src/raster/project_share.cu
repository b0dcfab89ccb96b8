// Projects a rank's share of the splats into a view of the batch, which this or another rank renders. Visible splats go to a message that
// is sent to that rank (visible.cuh); receive_splats.cu counts their tiles there. One lane owns one splat; blocks are independent.
// Launched by splat_cli/train/multi_gpu/sharded_views.py. The same in plain NumPy: tests/reference/project.py.
#include "raster/project_splat.cuh"
#include "raster/visible.cuh"

// Stores a warp's visible splats in a message (visible.cuh). first_own: index in the share of the warp's first splat.
__device__ __forceinline__ void put_splats(
    float* __restrict__ message /* see visible.cuh */, int columns, int rows, int first_own, vbool visible, const SplatInView& projected)
{
    VisibleGroup group = {ballot(visible), 0};
    if (group.mask) group.begin = warp_atomic_add((unsigned*)message, __popc(group.mask));
    if (leader()) ((VisibleGroup*)(message + GROUPS_AT))[first_own / 32] = group;
    const vint row = row_of(group, lane_id());
    const vbool sent = visible & (row < rows);
    if (!some(sent)) return;
    float4* const conics = (float4*)(message + splats_at(columns));
    float* const means = (float*)(conics + 2 * (size_t)rows);
    vfloat4 color = projected.color;
    color.w = projected.depth;
    store4(conics, row, projected.conic_opacity, sent);
    store4(conics + rows, row, color, sent);
    store(means, 2 * row, projected.x, sent);
    store(means, 2 * row + 1, projected.y, sent);
}

extern "C" __global__ void project_share(
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    const IterState* __restrict__ state,    // [1] its view is ignored
    const BatchView* __restrict__ view,     // [1]
    int antialias,                          // 0 or 1
    float dropout,                          // fraction of splats to drop; only with DROPOUT
    Share share,                            // splats to project
    int columns,                            // number of splats of a share, rounded up
    int rows,                               // maximum number of visible splats that fit in the message
    const float* __restrict__ smooth_3d_sigmas, // [1, capacity] see projection.cuh; may be null
    float* __restrict__ depths,             // [columns] z; 0 if invisible
    float4* __restrict__ colors,            // [columns] rgb, unused
    float* __restrict__ message)            // [stride] see visible.cuh; its number of visible splats is increased
{
    const int first_own = (blockIdx.x * blockDim.y + threadIdx.y) * 32, first = splat_of(share, first_own), n = state->num_splats;
    if (state->overflowed) return;
    if (first >= n) {
        put_splats(message, columns, rows, first_own, false, {});
        return;
    }
    const int i = own(first_own);
    const vint splat = first + lane_id();
    const vbool exists = splat < n;
    vfloat gain;
    const vbool kept = apply_dropout(splat, exists, view->step, state->num_frozen, dropout, gain);
    SplatInView projected = {};
    const float* own_sigmas = smooth_3d_sigmas ? smooth_3d_sigmas + i : nullptr;
    const vbool visible = project_splat(params + i, capacity, kept, view->camera, view->sh_degree, antialias, own_sigmas, gain, projected);
    store_own(depths + i, select(visible, projected.depth, vfloat(0.0f)), exists);
    store4_own(colors + i, projected.color, visible);
    put_splats(message, columns, rows, first_own, visible, projected);
}
