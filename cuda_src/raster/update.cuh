// Shared by the two kernels of an update (project_backward, color_backward): compile-time choices, options, splats to update.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#include "raster/slots.cuh"
#include "raster/splat_sums.cuh"
#include "raster/visible.cuh"

#ifdef FUSED_ADAM                   // Adam updates the parameters in place; without it, gradients are stored in d_params
constexpr bool FUSED = true;
#else
constexpr bool FUSED = false;
#endif

// render/project.py mirrors this layout.
struct UpdateOptions {
    int antialias;                  // 0 or 1
    int dense;                      // 1: splats that this view does not see are updated with a zero gradient
    int absgrad;                    // 1: stats use the sums of |d mean2d| (AbsGS, Ye et al. 2024)
    int warps;                      // which warps to update, see below
    float opacity_reg, scale_reg;   // weights of the mean opacity and the mean scale in the loss
    unsigned noise_seed;            // noise of positions after the step (langevin_noise.cuh); only with FUSED_ADAM
    float noise_scale;              // 0: no noise
};
// Warps to update: all, only warps without splats that a view of the batch sees (they need no gradients), or only the others.
enum { ALL_WARPS, UNSEEN_WARPS, SEEN_WARPS };

// Splats first, first + 1, ... of the warp that may be updated: they exist and are not frozen.
__device__ __forceinline__ vbool trainable(const IterState& state, int first)
{
    const vint splat = first + lane_id();
    return (splat < (int)state.num_splats) & (splat >= (int)state.num_frozen);
}

// Number of splats at the beginning without moments and statistics: the frozen ones, in whole warps, which keeps columns aligned.
__device__ __forceinline__ int num_without_moments(const IterState& state)
{
#ifdef FROZEN
    return (int)state.num_frozen & ~31;
#else
    return 0;
#endif
}

// Whether an update of `warps` includes this warp. All lanes call it.
__device__ __forceinline__ bool is_updated(
    int warps, const float* __restrict__ depths /* [slots, columns] */, const SlotLayout& layout, vbool m)
{
    return warps == ALL_WARPS || any(seen(depths, layout, m)) == (warps == SEEN_WARPS);
}

// The rows of d_splats that belong to 32 splats of a share from `first` on, in a slot: their first row, and a row of each lane from there.
// The look-up in `sent` (see project_backward) needs registers, so only kernels of several ranks have it.
struct SlotRows { float* base; vint row; };
__device__ __forceinline__ SlotRows rows_of(
    float* d_splats /* [slots, rows, SPLAT_SUMS] */, const float* __restrict__ sent, const SlotLayout& layout, int slot, int first)
{
    float* const base = d_splats + (size_t)slot * layout.rows * SPLAT_SUMS;
    if (!ROWS_ARE_SENT) return {base + (size_t)first * SPLAT_SUMS, lane_id()};
    return {base, row_of(group_of(sent + (size_t)slot * layout.sent_stride, first), lane_id())};
}
