// Appearance of a photograph as a bilateral grid, and its gradient (Wang et al. 2024, "Bilateral Guided Radiance Field Processing",
// sec. 4.1): an affine change of the rendered colours that varies over the image and with luminance.
//
//     y = x + (E + D) (x, 1)
//
// E is the photograph's exposure (exposure.cu). D is interpolated linearly in the grid at the pixel's position and luminance. E + D
// is the 3x4 matrix minus identity.
//
// A block owns a patch, the pixels between four nodes: no two blocks write to the same place, and all sums have a fixed order. A lane
// owns a pixel. A warp owns rows of pixels; when the gradient is summed, it owns one level of luminance.
// Launched by splat_cli/joint/appearance/bilateral_grid.py. The same in plain NumPy: tests/reference/bilateral_grid.py.
#include "optim/bilateral_grid.cuh"
#include "lanes.cuh"

struct Patch { int left, right, top, bottom, width, height; };     // px; right and bottom are exclusive

// The first pixel whose centre is at or after node `node` of intervals + 1 nodes along `size` pixels.
__device__ __forceinline__ int first_pixel(int node, int intervals, int size)
{
    const int twice = 2 * intervals;        // x + 0.5 >= size node / intervals
    return max((2 * size * node - intervals + twice - 1) / twice, 0);
}

__device__ __forceinline__ Patch patch_of(const Camera& camera)
{
    const int i = blockIdx.x, j = blockIdx.y, width = camera.width, height = camera.height;
    Patch p = {first_pixel(i, PATCHES_X, width), i + 1 < PATCHES_X ? first_pixel(i + 1, PATCHES_X, width) : width,
               first_pixel(j, PATCHES_Y, height), j + 1 < PATCHES_Y ? first_pixel(j + 1, PATCHES_Y, height) : height, width, height};
    return p;
}

// Position of a row or column of pixels between the patch's nodes, 0 to 1.
__device__ __forceinline__ float row_place(const Patch& p, int y) { return (y + 0.5f) * ((float)PATCHES_Y / p.height) - blockIdx.y; }
__device__ __forceinline__ vfloat column_place(const Patch& p, int x)
{
    return (to_float(x + lane_id()) + 0.5f) * ((float)PATCHES_X / p.width) - (float)blockIdx.x;
}

struct Color { vfloat r, g, b; };

__device__ __forceinline__ Color load_color(
    const float* __restrict__ image /* [3, height, width] */, const Patch& p, int x, int y, vbool in)
{
    const float* row = image + (size_t)y * p.width + x;
    const size_t plane = (size_t)p.width * p.height;
    Color c = {load_row(row, in), load_row(row + plane, in), load_row(row + 2 * plane, in)};
    return c;
}

__device__ __forceinline__ void store_color(
    float* __restrict__ image /* [3, height, width] */, const Patch& p, int x, int y, const Color& c, vbool in)
{
    float* row = image + (size_t)y * p.width + x;
    const size_t plane = (size_t)p.width * p.height;
    store_row(row, c.r, in); store_row(row + plane, c.g, in); store_row(row + 2 * plane, c.b, in);
}

// Luminance (ITU-R BT.601) in grid levels, not clamped.
#define LUMA_R 0.299f
#define LUMA_G 0.587f
#define LUMA_B 0.114f
__device__ __forceinline__ vfloat unclamped_level(const Color& c)
{
    return (LUMA_R * c.r + LUMA_G * c.g + LUMA_B * c.b) * (float)(GRID_LEVELS - 1);
}
__device__ __forceinline__ vfloat clamp_level(vfloat level) { return vmin(vmax(level, vfloat(0.0f)), vfloat(GRID_LEVELS - 1.0f)); }
__device__ __forceinline__ vfloat level_weight(vfloat level, int z, vbool in)
{
    return select(in, vmax(1.0f - vabs(level - (float)z), vfloat(0.0f)), vfloat(0.0f));
}

// For each level and value of the patch: E + D at the first corner, and the increments to the right, down, and both (bilinear form).
__device__ __forceinline__ void load_patch(
    float* shared /* [GRID_LEVELS, AFFINE, 4] */, const float* __restrict__ exposures /* [num_views, 3, AFFINE] */,
    const float* __restrict__ grids /* [num_views, 3, GRID_VALUES] */, int view)
{
    const float* exposure = exposures + (size_t)view * 3 * AFFINE;
    const float* grid = grids + (size_t)view * 3 * GRID_VALUES;
    BLOCK_FOR(i, GRID_LEVELS * AFFINE) {
        const float* node = grid + node_index(i / AFFINE, blockIdx.y, blockIdx.x) + i % AFFINE;
        const float a = node[0], b = node[AFFINE], c = node[GRID_WIDTH * AFFINE], d = node[(GRID_WIDTH + 1) * AFFINE];
        shared[4 * i] = exposure[i % AFFINE] + a; shared[4 * i + 1] = b - a; shared[4 * i + 2] = c - a; shared[4 * i + 3] = a - b - c + d;
    }
}

// One value of E + D at a level, for the pixels of a row.
__device__ __forceinline__ vfloat value_at(const float* corners /* [4] */, vfloat u, float v)
{
    return (corners[0] + v * corners[2]) + u * (corners[1] + v * corners[3]);
}

extern "C" __global__ void __launch_bounds__(256) apply_bilateral_grid(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ exposures,    // [num_views, 3, AFFINE] E; first and second moments
    const float* __restrict__ grids,        // [num_views, 3, GRID_VALUES] D; first and second moments
    const float* __restrict__ image,        // [3, height, width]
    float* __restrict__ changed)            // [3, height, width]
{
    __shared__ float shared[GRID_LEVELS * AFFINE * 4];
    if (state->overflowed) return;
    const Patch p = patch_of(cameras[state->view]);
    load_patch(shared, exposures, grids, state->view);
    __syncthreads();
    for (int y = p.top + threadIdx.y; y < p.bottom; y += blockDim.y) {
        const float v = row_place(p, y);
        for (int x = p.left; x < p.right; x += 32) {
            const vbool in = x + lane_id() < p.right;
            const vfloat u = column_place(p, x);
            const Color c = load_color(image, p, x, y, in);
            const vfloat level = clamp_level(unclamped_level(c));
            vfloat d[AFFINE];
            for (int k = 0; k < AFFINE; ++k) d[k] = 0.0f;
            for (int z = 0; z < GRID_LEVELS; ++z) {
                const vfloat weight = level_weight(level, z, in);
                if (!any(weight > 0.0f)) continue;
#pragma unroll
                for (int k = 0; k < AFFINE; ++k) d[k] += weight * value_at(shared + 4 * (z * AFFINE + k), u, v);
            }
            Color out = {c.r + (d[0] * c.r + d[1] * c.g + d[2] * c.b + d[3]), c.g + (d[4] * c.r + d[5] * c.g + d[6] * c.b + d[7]),
                         c.b + (d[8] * c.r + d[9] * c.g + d[10] * c.b + d[11])};
            store_color(changed, p, x, y, out, in);
        }
    }
}

// Sums the gradients of the values at the patch's four corners, at one level.
__device__ __forceinline__ void sum_gradients(
    const Patch& p, int z, const float* __restrict__ image /* [3, height, width] */,
    const float* __restrict__ d_image /* [3, height, width] */, float* __restrict__ out /* [CORNERS, AFFINE] */)
{
    vfloat sums[CORNERS * AFFINE];
    for (int k = 0; k < CORNERS * AFFINE; ++k) sums[k] = 0.0f;
    for (int y = p.top; y < p.bottom; ++y) {
        const float v = row_place(p, y);
        for (int x = p.left; x < p.right; x += 32) {
            const vbool in = x + lane_id() < p.right;
            const Color c = load_color(image, p, x, y, in);
            const vfloat weight = level_weight(clamp_level(unclamped_level(c)), z, in);
            if (!any(weight > 0.0f)) continue;
            const Color d = load_color(d_image, p, x, y, in);
            const vfloat u = column_place(p, x), top = weight * (1.0f - v), bottom = weight * v;
            const vfloat corners[CORNERS] = {top - u * top, u * top, bottom - u * bottom, u * bottom};
#pragma unroll
            for (int i = 0; i < CORNERS; ++i) {
                const vfloat d_out[3] = {corners[i] * d.r, corners[i] * d.g, corners[i] * d.b};
#pragma unroll
                for (int k = 0; k < 3; ++k) {
                    sums[AFFINE * i + 4 * k] += d_out[k] * c.r; sums[AFFINE * i + 4 * k + 1] += d_out[k] * c.g;
                    sums[AFFINE * i + 4 * k + 2] += d_out[k] * c.b; sums[AFFINE * i + 4 * k + 3] += d_out[k];
                }
            }
        }
    }
    store_sums(out, sums);
}

// One warp per level.
extern "C" __global__ void __launch_bounds__(32 * GRID_LEVELS) apply_bilateral_grid_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ exposures,    // [num_views, 3, AFFINE]
    const float* __restrict__ grids,        // [num_views, 3, GRID_VALUES]
    const float* __restrict__ image,        // [3, height, width] before the grid is applied
    float* __restrict__ d_image,            // [3, height, width] in: gradient after the grid; out: before it
    float* __restrict__ d_patches)          // [PATCHES_Y, PATCHES_X, GRID_LEVELS, CORNERS, AFFINE] sums of each patch
{
    __shared__ float shared[GRID_LEVELS * AFFINE * 4];
    if (state->overflowed) return;
    const Patch p = patch_of(cameras[state->view]);
    const int patch = blockIdx.y * PATCHES_X + blockIdx.x, warp = threadIdx.y;
    load_patch(shared, exposures, grids, state->view);
    sum_gradients(p, warp, image, d_image, d_patches + ((size_t)patch * GRID_LEVELS + warp) * CORNERS * AFFINE);
    __syncthreads();                        // d_image is overwritten from here on
    for (int y = p.top + warp; y < p.bottom; y += blockDim.y) {
        const float v = row_place(p, y);
        for (int x = p.left; x < p.right; x += 32) {
            const vbool in = x + lane_id() < p.right;
            const vfloat u = column_place(p, x);
            const Color c = load_color(image, p, x, y, in), d = load_color(d_image, p, x, y, in);
            const vfloat unclamped = unclamped_level(c), level = clamp_level(unclamped);
            const vbool inside = (unclamped > 0.0f) & (unclamped < GRID_LEVELS - 1.0f);
            vfloat d_r = d.r, d_g = d.g, d_b = d.b, d_level = 0.0f;
            for (int z = 0; z < GRID_LEVELS; ++z) {
                const vfloat weight = level_weight(level, z, in);
                if (!any(weight > 0.0f)) continue;
                const vfloat side = select(level > (float)z, vfloat(-1.0f), select(level < (float)z, vfloat(1.0f), vfloat(0.0f)));
                const float* values = shared + 4 * z * AFFINE;
                vfloat m[AFFINE];
#pragma unroll
                for (int k = 0; k < AFFINE; ++k) m[k] = value_at(values + 4 * k, u, v);
                d_r += weight * (m[0] * d.r + m[4] * d.g + m[8] * d.b);
                d_g += weight * (m[1] * d.r + m[5] * d.g + m[9] * d.b);
                d_b += weight * (m[2] * d.r + m[6] * d.g + m[10] * d.b);
                const vfloat along = d.r * (m[0] * c.r + m[1] * c.g + m[2] * c.b + m[3])
                                   + d.g * (m[4] * c.r + m[5] * c.g + m[6] * c.b + m[7])
                                   + d.b * (m[8] * c.r + m[9] * c.g + m[10] * c.b + m[11]);
                d_level += select((weight > 0.0f) & inside, side * along, vfloat(0.0f));
            }
            d_level = (GRID_LEVELS - 1.0f) * d_level;
            Color out = {d_r + LUMA_R * d_level, d_g + LUMA_G * d_level, d_b + LUMA_B * d_level};
            store_color(d_image, p, x, y, out, in);
        }
    }
}
