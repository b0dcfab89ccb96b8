// Common to the two kernels of an update (project_backward, color_backward): compile-time choices, options, splats to update.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#include "raster/slots.cuh"

#ifdef FUSED_ADAM                   // Adam is applied in place; else gradients are stored in d_params
constexpr bool FUSED = true;
#else
constexpr bool FUSED = false;
#endif

// Rows 3 to 5 of a splat's d_rays are d rgb. Red is set to this where the splat's gradients cannot be used, so that color_backward
// leaves the splat alone, too.
#define UNUSABLE 3e38f

// render/project_backward.py mirrors this layout.
struct UpdateOptions {
    int antialias;                  // 0 or 1
    int dense;                      // 1: splats that this view does not see get a zero gradient too
    int absgrad;                    // 1: statistics are of the sums of |d mean2d| (AbsGS, Ye et al. 2024)
    int warps;                      // of splats to update: ALL_WARPS, or
    float opacity_reg, scale_reg;   // weights of the mean opacity and the mean scale in the loss
};
// those that no view of the batch sees, which need no gradients, or those that one sees.
enum { ALL_WARPS, UNSEEN_WARPS, SEEN_WARPS };

// Splats first, first + 1, ... of the warp that may be changed: those that exist and are not frozen.
__device__ __forceinline__ vbool trainable(const IterState& state, int first)
{
    const vint splat = first + lane_id();
    return (splat < (int)state.num_splats) & (splat >= (int)state.num_frozen);
}

// Whether an update of `warps` includes this warp. All of its lanes call it.
__device__ __forceinline__ bool is_updated(
    int warps, const float* __restrict__ depths /* [slots, columns] */, const SlotLayout& layout, vbool m)
{
    return warps == ALL_WARPS || any(seen(depths, layout, m)) == (warps == SEEN_WARPS);
}
