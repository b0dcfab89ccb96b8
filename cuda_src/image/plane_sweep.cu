// Depth of single pixels from several photographs, by plane sweep (Collins 1996).
//
// At each tested depth, the patch around a pixel is a small plane parallel to the image. Other views see it warped, and the score is the
// normalised cross-correlation of brightness, which ignores exposure: the mean over the BEST views, because some may not see the point.
// One thread owns one depth of one pixel.
// Launched by splat_cli/scene/plane_sweep.py. The same in plain NumPy: tests/reference/plane_sweep.py.
#include "common.cuh"

#define RADIUS 2                    // px; half the size of a patch. scene/plane_sweep.py mirrors it
#define PEAK 3                      // depths on each side that belong to the same peak
#define BEST 3                      // number of views in the mean
#define MIN_DEVIATION 2.0f          // grey levels of 255; a patch with less contrast looks like any other

#define SIDE (2 * RADIUS + 1)
#define COUNT (SIDE * SIDE)

// A grey photograph.
struct GrayImage { const unsigned char* pixels; int width, height; };

struct Patch { float values[COUNT]; };      // with mean 0 and sum of squares 1

// Normalises a patch; false if its contrast is too small.
__device__ __forceinline__ bool normalize(Patch& patch)
{
    float sum = 0.0f, squares = 0.0f;
    for (int k = 0; k < COUNT; ++k) sum += patch.values[k];
    for (int k = 0; k < COUNT; ++k) {
        patch.values[k] -= sum * (1.0f / COUNT);
        squares += patch.values[k] * patch.values[k];
    }
    const float unit = rsqrtf(squares);
    for (int k = 0; k < COUNT; ++k) patch.values[k] *= unit;
    return squares > COUNT * MIN_DEVIATION * MIN_DEVIATION;
}

__device__ __forceinline__ float bilinear(const GrayImage& gray, float x, float y)
{
    const int x0 = (int)x, y0 = (int)y;
    const float dx = x - x0, dy = y - y0;
    const unsigned char *top = gray.pixels + (size_t)y0 * gray.width + x0, *bottom = top + gray.width;
    return (top[0] * (1.0f - dx) + top[1] * dx) * (1.0f - dy) + (bottom[0] * (1.0f - dx) + bottom[1] * dx) * dy;
}

// The patch around pixel (x, y) at inverse depth w, as another view sees it; false if part of it is outside that view's image.
// warp: with r = warp (x, y, 1, w), the pixel lands at (r0, r1) / r2.
__device__ __forceinline__ bool sample_patch(
    const GrayImage& gray, const float* __restrict__ warp /* [3, 4] */, int x, int y, float w, Patch& patch)
{
    for (int k = 0; k < COUNT; ++k) {
        const float px = x + 0.5f + (k % SIDE - RADIUS), py = y + 0.5f + (k / SIDE - RADIUS);
        const float depth = warp[8] * px + warp[9] * py + warp[10] + warp[11] * w;
        const float u = (warp[0] * px + warp[1] * py + warp[2] + warp[3] * w) / depth - 0.5f;
        const float v = (warp[4] * px + warp[5] * py + warp[6] + warp[7] * w) / depth - 0.5f;
        if (!(depth > 0.0f && u >= 0.0f && v >= 0.0f && u < gray.width - 1 && v < gray.height - 1)) return false;
        patch.values[k] = bilinear(gray, u, v);
    }
    return true;
}

__device__ __forceinline__ GrayImage gray_image_of(
    const unsigned char* grays /* [bytes] */, const long long* begins /* [num_views] */, const int* sizes /* [num_views, 2] */, int view)
{
    GrayImage gray = {grays + begins[view], sizes[2 * view], sizes[2 * view + 1]};
    return gray;
}

extern "C" __global__ void __launch_bounds__(128) plane_sweep(
    const unsigned char* __restrict__ grays,    // [sum of height * width] all views, one after the other
    const long long* __restrict__ begins,       // [num_views] first byte of each
    const int* __restrict__ sizes,              // [num_views, 2] width, height
    const int* __restrict__ neighbors,          // [num_views, num_neighbors] views that each view is compared with
    const float* __restrict__ warps,            // [num_views, num_neighbors, 12] from a view's pixels to each neighbour's
    int num_neighbors,
    const int* __restrict__ pixels,             // [num_pixels, 3] view, column, row; at least RADIUS from the border
    int num_pixels,
    const float* __restrict__ inverse_depths,   // [num_views, num_depths] 1 / z, world units
    int num_depths,
    float* __restrict__ scores)                 // [num_pixels, num_depths] -1 to 1; -1 if fewer than BEST views see the patch
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)num_pixels * num_depths) return;
    const int *pixel = pixels + 3 * (i / num_depths), view = pixel[0], x = pixel[1], y = pixel[2];
    const GrayImage gray = gray_image_of(grays, begins, sizes, view);
    const float w = inverse_depths[(size_t)view * num_depths + i % num_depths];
    scores[i] = -1.0f;
    Patch own, seen;
    for (int k = 0; k < COUNT; ++k)
        own.values[k] = gray.pixels[(size_t)(y + k / SIDE - RADIUS) * gray.width + x + k % SIDE - RADIUS];
    if (!normalize(own)) return;
    float best[BEST];
    for (int k = 0; k < BEST; ++k) best[k] = -1.0f;
    int num_seen = 0;
    for (int n = 0; n < num_neighbors; ++n) {
        const int pair = view * num_neighbors + n;
        if (!sample_patch(gray_image_of(grays, begins, sizes, neighbors[pair]), warps + 12 * (size_t)pair, x, y, w, seen)) continue;
        ++num_seen;
        if (!normalize(seen)) continue;
        float score = 0.0f;
        for (int k = 0; k < COUNT; ++k) score += own.values[k] * seen.values[k];
        for (int k = 0; k < BEST; ++k) {  // insert, shifting worse ones down
            const float kept = fmaxf(best[k], score);
            score = fminf(best[k], score);
            best[k] = kept;
        }
    }
    float sum = 0.0f;
    for (int k = 0; k < BEST; ++k) sum += best[k];
    if (num_seen >= BEST) scores[i] = sum / BEST;
}

// Depth of pixels whose scores have a single peak, refined with a parabola. One thread owns one pixel.
extern "C" __global__ void __launch_bounds__(128) find_peaks(
    const float* __restrict__ scores,           // [num_pixels, num_depths]
    int num_pixels, int num_depths,
    float min_score, float margin,              // minimum score; minimum lead over scores outside the peak
    double* __restrict__ places)                // [num_pixels] index of the depth, with a fraction; 0: no such peak
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_pixels) return;
    const float* own = scores + (size_t)i * num_depths;
    places[i] = 0.0;
    int best = 0;
    for (int d = 1; d < num_depths; ++d) best = own[d] > own[best] ? d : best;
    if (best == 0 || best == num_depths - 1 || own[best] < min_score) return;
    float rival = -1.0f;
    for (int d = 0; d < num_depths; ++d) rival = abs(d - best) > PEAK ? fmaxf(rival, own[d]) : rival;
    const float left = own[best - 1], top = own[best], right = own[best + 1];
    if (left <= -1.0f || right <= -1.0f || top - rival < margin) return;
    const float shift = 0.5f * (left - right) / fminf(left - 2.0f * top + right, -1e-6f);
    places[i] = best + (double)fminf(fmaxf(shift, -0.5f), 0.5f);
}
