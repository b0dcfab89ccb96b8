// Shared by all kernels: constants of the method, structs that the host fills, small math.
#pragma once

#define TILE 16                     // px; a tile is 16x16 pixels
#define TILE_PIXELS (TILE * TILE)
#define COUNT_STRIDE 8              // words per counter of a tile: a memory sector each, because atomics of a sector wait for each other
#define SEGMENT 256                 // pairs between two saved states of a pixel; the work of a block of the backward pass at a time
#define SEGMENT_BINS 4              // segments are listed in bins by their work (raster/blend.cuh)
#define NEAR_PLANE 0.001f           // world units; small, because some scenes are smaller than one unit
#define ALPHA_MIN (1.0f / 255.0f)   // contributions below this are skipped
#define ALPHA_MAX 0.99f
#define TRANSMITTANCE_MIN 1e-4f     // a pixel ends when less light than this is left
#define LOG2E 1.4426950408889634f

// Rows of the parameter planes [rows, capacity].
#define ROW_MEAN 0
#define ROW_LOG_SCALE 3
#define ROW_QUAT 6
#define ROW_OPACITY 10
#define ROW_SH0 11
#define ROW_SHN 14

// Learning rates in IterState.lr. render/iter_state.py mirrors this order.
enum { LR_MEANS, LR_LOG_SCALES, LR_QUATS, LR_OPACITIES, LR_SH0, LR_SHN, LR_FIELD, LR_FIELD_FEATURES, NUM_LR };

// Row length of d_splats [capacity, SPLAT_SUMS], the sums of blend_backward (struct SplatSums in raster/splat_sums.cuh).
#ifndef SPLAT_SUMS                  // a benchmark tries wider rows (scripts/bench/blend_stages.py)
#define SPLAT_SUMS 12
#endif
#define SUM_RED 6                   // column of d rgb

// One photograph and the camera that took it. render/camera.py mirrors this layout.
struct Camera {
    float w2c[12];                  // rows of [R | t], world to camera
    float position[3];              // camera centre, world
    float fx, fy, cx, cy;           // px
    float k1, k2;                   // RADIAL_DISTORTION: its coefficients. LENS: halves of the address of the LensModel (lens/lens.cuh)
    int width, height;              // px
    int tiles_x, tiles_y;
    int num_pixels;                 // pixels in the loss: all, or those that the mask keeps
    unsigned long long photo;       // address of u8 [height, width, 3], or 0
    unsigned long long mask;        // address of u8 [height, width], 0 at pixels that do not count; or 0: no mask
};

// A view of a batch, kept for the update after its last view. render/project.py knows its size.
struct BatchView {
    Camera camera;                  // as rendered: --pose-opt moves the camera afterwards
    float loss;                     // if it is not finite, the whole batch is skipped
    int view, step, sh_degree;      // copied from IterState
    float background[3];
};

// The splats of one of several ranks: blocks of RANK_BLOCK, assigned round robin. Column j of the rank's planes is the j-th of them.
// ranks/protocol.py mirrors this layout.
struct Share {
    int rank, num_ranks;
};
#define RANK_BLOCK 4096

// Owner of splat i, and its index in the owner's share; the inverse is splat_of.
__device__ __forceinline__ int rank_of(int num_ranks, int i) { return i / RANK_BLOCK % num_ranks; }
__device__ __forceinline__ int place_in_share(int num_ranks, int i) { return i / (RANK_BLOCK * num_ranks) * RANK_BLOCK + i % RANK_BLOCK; }

// Index of the j-th splat of a share.
__device__ __forceinline__ int splat_of(const Share& s, int j)
{
    return s.num_ranks == 1 ? j : (j / RANK_BLOCK * s.num_ranks + s.rank) * RANK_BLOCK + j % RANK_BLOCK;
}

// State of one iteration, in device memory, so that a captured launch can be replayed without new arguments.
// render/iter_state.py mirrors this layout.
struct IterState {
    int step;                       // photographs shown so far, including this one
    int view;                       // index of the current camera
    int sh_degree;                  // current degree of the colours
    int overflowed;                 // 1: a buffer was too small; steps do nothing until the host has enlarged it
    unsigned num_splats;
    unsigned num_large;             // visible splats with a large bounding box (tile_walk.cuh)
    unsigned num_pairs;             // (tile, splat) pairs of this view; 0 if they did not fit
    unsigned needed_pairs;          // pairs that this view needs; 2^32 - 1: at least that many
    unsigned segments_in_bins[SEGMENT_BINS];    // segments of tiles, blocks of the backward pass (raster/blend.cuh)
    float background[3];
    float loss_l1, loss_l2, loss_ssim;  // sums of this step over pixels and channels
    float loss, psnr;               // running means over steps, shown in the progress bar
    float inv_bias1;                // 1 / (1 - beta1^t): Adam's bias correction of the first moment
    float inv_root_bias2;           // 1 / sqrt(1 - beta2^t): the same for the root of the second moment
    float lr[NUM_LR];               // learning rates of this step
    float reference_size;           // world units; a splat of this size moves at the learning rate of positions. 0: all sizes do
    unsigned skipped_updates;       // updates of single splats skipped since the start because of a non-finite gradient
    unsigned skipped_steps;         // steps skipped because of a non-finite loss
    unsigned num_frozen;            // number of splats at the beginning that are rendered but never trained
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < 1e30f; }     // and is far from overflow

// Not finite if any part of this step's loss is not finite. Then nothing is updated.
__device__ __forceinline__ float checked_loss(const IterState& state) { return state.loss_l1 + state.loss_ssim; }
__device__ __forceinline__ bool loss_is_finite(const IterState& state) { return is_finite(checked_loss(state)); }

__device__ __forceinline__ void set_view(IterState* state, const BatchView& recorded)
{
    state->view = recorded.view;
    state->step = recorded.step;
    for (int c = 0; c < 3; ++c) state->background[c] = recorded.background[c];
}

// PCG hash (Jarzynski and Olano 2020): maps a counter to 32 random bits.
__device__ __forceinline__ unsigned pcg(unsigned x)
{
    const unsigned s = x * 747796405u + 2891336453u;
    const unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}
