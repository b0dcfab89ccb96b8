// Common to all kernels: constants of the method, the structs that the host fills, and small mathematics.
#pragma once

#define TILE 16                     // px; a tile is 16x16 pixels
#define TILE_PIXELS (TILE * TILE)
#define SEGMENT 256                 // pairs between two saved states of a pixel: what one block of the backward pass owns
#define NEAR_PLANE 0.001f           // world units; small enough for scenes that are smaller than one unit
#define ALPHA_MIN (1.0f / 255.0f)   // contributions under this are skipped
#define ALPHA_MAX 0.99f
#define TRANSMITTANCE_MIN 1e-4f     // a pixel stops before it would fall under this
#define LOG2E 1.4426950408889634f

// Rows of the parameter planes [rows, capacity].
#define ROW_MEAN 0
#define ROW_LOG_SCALE 3
#define ROW_QUAT 6
#define ROW_OPACITY 10
#define ROW_SH0 11
#define ROW_SHN 14

// Learning rates in IterState.lr. render/iter_state.py has the same order.
enum { LR_MEANS, LR_LOG_SCALES, LR_QUATS, LR_OPACITIES, LR_SH0, LR_SHN, LR_FIELD, LR_FIELD_FEATURES, NUM_LR };

// Columns of d_splats [capacity, SPLAT_SUMS]: what blend_backward sums over pixels (struct SplatSums in raster/splat_sums.cuh).
#ifndef SPLAT_SUMS                  // a benchmark tries wider rows (scripts/bench/blend_stages.py)
#define SPLAT_SUMS 12
#endif
#define SUM_RED 6                   // column of d rgb

// One photograph and the camera that took it. render/camera.py mirrors this layout.
struct Camera {
    float w2c[12];                  // rows of [R | t], world to camera
    float position[3];              // camera centre, world
    float fx, fy, cx, cy;           // px
    float k1, k2;                   // radial distortion that the image has; with RADIAL_DISTORTION
    int width, height;              // px
    int tiles_x, tiles_y;
    int num_pixels;                 // that count: all of them, or those the mask leaves
    unsigned long long photo;       // address of u8 [height, width, 3], or 0
    unsigned long long mask;        // address of u8 [height, width], 0 where a pixel does not count, or 0
};

// A view of a batch, for the update after its last view. render/project.py has its size.
struct BatchView {
    Camera camera;                  // as rendered: --pose-opt moves it afterwards
    float loss;                     // not finite: the whole batch is skipped
    int view, step, sh_degree;      // of IterState
    float background[3];
};

// Which splats a process owns, of several that train together: blocks of RANK_BLOCK, dealt round robin. ranks/share.py mirrors this layout.
struct Share {
    int rank, num_ranks;
    int sharded;                    // 1: planes hold the columns of these splats only; 0: of all
};
#define RANK_BLOCK 4096

// The j-th splat of a share, and its column in the planes.
__device__ __forceinline__ int splat_of(const Share& s, int j)
{
    return s.num_ranks == 1 ? j : (j / RANK_BLOCK * s.num_ranks + s.rank) * RANK_BLOCK + j % RANK_BLOCK;
}
__device__ __forceinline__ int column_of(const Share& s, int j) { return s.sharded ? j : splat_of(s, j); }

// The state of an iteration, in device memory, so that a replayed launch needs nothing from the host.
// render/iter_state.py mirrors this layout.
struct IterState {
    int step;                       // photographs shown, this one included
    int view;                       // index of the current camera
    int sh_degree;                  // of the colours now
    int overflowed;                 // 1: a buffer was too small; steps do nothing until the host has made room
    unsigned num_splats;
    unsigned num_large;             // visible splats with a large bounding box (tile_walk.cuh)
    unsigned num_pairs;             // (tile, splat) pairs of this view; 0 where they did not fit
    unsigned needed_pairs;          // how many there would have been; 2^32 - 1: at least as many
    unsigned num_segments;          // blocks of work of the backward pass
    float background[3];
    float loss_l1, loss_l2, loss_ssim;  // sums over pixels and channels, of this step
    float loss, psnr;               // running means over steps, for the progress bar
    float inv_bias1;                // 1 / (1 - beta1^t), Adam's bias correction of the first moment
    float inv_root_bias2;           // 1 / sqrt(1 - beta2^t), of the second's root
    float lr[NUM_LR];               // of this step
    float reference_size;           // of a splat that moves at the rate of positions, world units; 0: all move alike
    unsigned skipped_updates;       // of single splats, whose gradient was not finite, since the start
    unsigned skipped_steps;         // whose loss was not finite
    unsigned num_frozen;            // the first splats, which are shown and never changed
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < 1e30f; }     // and not about to overflow

// Not finite if a part of this step's loss is not: then nothing is updated.
__device__ __forceinline__ float checked_loss(const IterState& state) { return state.loss_l1 + state.loss_ssim; }
__device__ __forceinline__ bool loss_is_finite(const IterState& state) { return is_finite(checked_loss(state)); }

__device__ __forceinline__ void set_view(IterState* state, const BatchView& recorded)
{
    state->view = recorded.view;
    state->step = recorded.step;
    for (int c = 0; c < 3; ++c) state->background[c] = recorded.background[c];
}

// PCG hash (Jarzynski and Olano 2020): a counter in, 32 random bits out.
__device__ __forceinline__ unsigned pcg(unsigned x)
{
    const unsigned s = x * 747796405u + 2891336453u;
    const unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}
