// The views of an update. Each is projected into a slot of its own; with BATCH there are as many, else one.
#pragma once
#include "common.cuh"
#include "numbers.cuh"

#ifdef BATCH
constexpr int NUM_SLOTS = BATCH;
#else
constexpr int NUM_SLOTS = 1;
#endif

// Sizes of the arrays of a slot. render/project.py mirrors this layout.
struct SlotLayout {
    int columns;                    // splats of a slot: stride of depths, colors, and rows of d_rays
    int rows;                       // of d_splats: as many, or with several ranks those of splats that were sent, and one more
    int sent_stride;                // floats from slot to slot of what was sent (visible.cuh)
};

// Of the splats in m, those that the slot's view sees. depths: the lane's own element of the first slot.
__device__ __forceinline__ vbool seen_in(
    const float* __restrict__ depths /* [slots, columns] */, const SlotLayout& layout, int slot, vbool m)
{
    return m & (load_own(depths + (size_t)slot * layout.columns, m) > 0.0f);
}

// Those that any view sees.
__device__ __forceinline__ vbool seen(
    const float* __restrict__ depths /* [slots, columns] */, const SlotLayout& layout, vbool m)
{
    vbool found = seen_in(depths, layout, 0, m);
    for (int slot = 1; slot < NUM_SLOTS; ++slot) found = found | seen_in(depths, layout, slot, m);
    return found;
}

// The camera of a slot's view as it was rendered.
__device__ __forceinline__ const Camera& camera_of(
    const Camera* __restrict__ cameras /* [num_views] */, const BatchView* __restrict__ views /* [slots]; with BATCH */,
    const IterState& state, int slot)
{
#ifdef BATCH
    return views[slot].camera;
#else
    return cameras[state.view];
#endif
}

// Whether the losses of all views are numbers. Where one is not, nothing is updated.
__device__ __forceinline__ bool losses_are_finite(
    const IterState& state, const BatchView* __restrict__ views /* [slots]; with BATCH */)
{
#ifdef BATCH
    bool finite = true;
    for (int slot = 0; slot < NUM_SLOTS; ++slot) finite = finite && is_finite(views[slot].loss);
    return finite;
#else
    return loss_is_finite(state);
#endif
}
