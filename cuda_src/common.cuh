// What every kernel shares: constants of the method, the structs that the host fills, and small mathematics.
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
enum { LR_MEANS, LR_LOG_SCALES, LR_QUATS, LR_OPACITIES, LR_SH0, LR_SHN, NUM_LR };     // LR_SHN: or the field's

// A row of d_splats [capacity, SPLAT_SUMS]: what blend_backward sums over pixels (see there and geometry_backward.cuh).
#define SPLAT_SUMS 12
#define SUM_RED 6                   // column of d rgb
struct SplatSums {
    float g, gx, gy, gxx, gxy, gyy; // moments of g = dL/dpower: times (1, dx, dy, dx^2, dx dy, dy^2)
    float red, green, blue;         // dL/d colour
    float abs_x, abs_y;             // sums of |dL/d mean2d|; with ABSGRAD
    float unused;
};

// One photograph and the camera that took it. render/camera.py mirrors this layout.
struct Camera {
    float w2c[12];                  // rows of [R | t], world to camera
    float position[3];              // camera centre, world
    float fx, fy, cx, cy;           // px
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
};

// The state of an iteration, in device memory, so that a replayed launch needs nothing from the host.
// render/iter_state.py mirrors this layout.
struct IterState {
    int step;                       // photographs shown, this one included
    int view;                       // index of the current camera
    int sh_degree;                  // of the colours now
    int overflowed;                 // 1: a buffer was too small; steps do nothing until the host has made room
    unsigned num_splats;
    unsigned num_visible;
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
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < 1e30f; }     // and not about to overflow

// Whether this step's loss is a number. Where it is not, nothing is updated.
__device__ __forceinline__ bool loss_is_finite(const IterState& state) { return is_finite(state.loss_l1 + state.loss_ssim); }

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// PCG hash (Jarzynski and Olano 2020): a counter in, 32 random bits out.
__device__ __forceinline__ unsigned pcg(unsigned x)
{
    const unsigned s = x * 747796405u + 2891336453u;
    const unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}

__device__ __forceinline__ float3 make_vec(float x, float y, float z) { float3 v; v.x = x; v.y = y; v.z = z; return v; }
__device__ __forceinline__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __forceinline__ float3 cross(float3 a, float3 b)
{
    return make_vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
__device__ __forceinline__ float3 scale(float s, float3 a) { return make_vec(s * a.x, s * a.y, s * a.z); }
__device__ __forceinline__ float3 mul_elements(float3 a, float3 b) { return make_vec(a.x * b.x, a.y * b.y, a.z * b.z); }
__device__ __forceinline__ float3 add(float3 a, float3 b) { return make_vec(a.x + b.x, a.y + b.y, a.z + b.z); }
__device__ __forceinline__ float3 sub(float3 a, float3 b) { return make_vec(a.x - b.x, a.y - b.y, a.z - b.z); }

// A 3x3 matrix as three rows.
struct Mat3 { float3 r0, r1, r2; };
__device__ __forceinline__ float3 mul(const Mat3& m, float3 v) { return make_vec(dot(m.r0, v), dot(m.r1, v), dot(m.r2, v)); }
__device__ __forceinline__ float3 mul_transposed(const Mat3& m, float3 v)   // m^T v, and the row vector v^T m
{
    return add(add(scale(v.x, m.r0), scale(v.y, m.r1)), scale(v.z, m.r2));
}

// Rotation matrix of a unit quaternion (w, x, y, z).
__device__ __forceinline__ Mat3 rotation(float4 q)
{
    const float w = q.x, x = q.y, y = q.z, z = q.w;
    Mat3 r;
    r.r0 = make_vec(1.0f - 2.0f * (y * y + z * z), 2.0f * (x * y - w * z), 2.0f * (x * z + w * y));
    r.r1 = make_vec(2.0f * (x * y + w * z), 1.0f - 2.0f * (x * x + z * z), 2.0f * (y * z - w * x));
    r.r2 = make_vec(2.0f * (x * z - w * y), 2.0f * (y * z + w * x), 1.0f - 2.0f * (x * x + y * y));
    return r;
}

// 1 / |q|, also of a quaternion that is nearly 0.
__device__ __forceinline__ float inv_norm(float4 q)
{
    return rsqrtf(fmaxf(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w, 1e-24f));
}

// Rotation matrix of any quaternion.
__device__ __forceinline__ Mat3 unit_rotation(float4 q)
{
    const float n = inv_norm(q);
    float4 unit;
    unit.x = q.x * n; unit.y = q.y * n; unit.z = q.z * n; unit.w = q.w * n;
    return rotation(unit);
}
