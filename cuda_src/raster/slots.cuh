// The views of an update. Each view is projected into its own slot: BATCH slots, or one without BATCH.
#pragma once
#include "common.cuh"
#include "numbers.cuh"

#ifdef BATCH
constexpr int NUM_SLOTS = BATCH;
#else
constexpr int NUM_SLOTS = 1;
#endif

// Sizes of the arrays of one slot. render/project.py mirrors this layout.
struct SlotLayout {
    int columns;                    // splats of a slot: stride of depths and colors
    int rows;                       // rows of d_splats: equal to columns; with several ranks, one more than the splats that were sent
    int sent_stride;                // floats per message of `sent` (visible.cuh)
};

// The splats in m that the slot's view sees. depths: the lane's own element of the first slot.
__device__ __forceinline__ vbool seen_in(
    const float* __restrict__ depths /* [slots, columns] */, const SlotLayout& layout, int slot, vbool m)
{
    return m & (load_own(depths + (size_t)slot * layout.columns, m) > 0.0f);
}

// The splats in m that any view sees.
__device__ __forceinline__ vbool seen(
    const float* __restrict__ depths /* [slots, columns] */, const SlotLayout& layout, vbool m)
{
    vbool found = seen_in(depths, layout, 0, m);
    for (int slot = 1; slot < NUM_SLOTS; ++slot) found = found | seen_in(depths, layout, slot, m);
    return found;
}

// Camera of a slot's view, as it was when the view was rendered.
__device__ __forceinline__ const Camera& camera_of(
    const Camera* __restrict__ cameras /* [num_views] */, const BatchView* __restrict__ views /* [slots]; only with BATCH */,
    const IterState& state, int slot)
{
#ifdef BATCH
    return views[slot].camera;
#else
    return cameras[state.view];
#endif
}

// Whether the losses of all views are finite. If not, nothing is updated.
__device__ __forceinline__ bool losses_are_finite(
    const IterState& state, const BatchView* __restrict__ views /* [slots]; only with BATCH */)
{
#ifdef BATCH
    bool finite = true;
    for (int slot = 0; slot < NUM_SLOTS; ++slot) finite = finite && is_finite(views[slot].loss);
    return finite;
#else
    return loss_is_finite(state);
#endif
}
