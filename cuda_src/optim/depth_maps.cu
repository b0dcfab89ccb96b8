// Depth supervision by depth maps: Huber loss between blended and map inverse depth. Maps are in world units, or relative: known up to
// scale and shift, which are fitted by least squares in inverse depth (Ranftl et al. 2020, "Towards Robust Monocular Depth Estimation",
// sec. 5). Transparent splats near the camera dominate the blended inverse depth. So the loss pushes them away, but scale and shift are
// fitted to the inverse of the expected depth instead.
//
// A map stores half floats with mean 1, or 0 where it has no depth. Its inverse depth is scale * (value - 1) + shift.
// Launched by splat_cli/joint/depth/supervision.py. The same in plain NumPy: tests/reference/depth_maps.py.
#include "field/half.cuh"
#include "optim/per_view.cuh"

#define NUM_SUMS 7
#define SMOOTH 1.1f             // interpolates if the largest neighbour is at most this times the smallest; else there is an edge
#define OPAQUE 0.5f             // minimum opacity of pixels to which scale and shift are fitted
#define TOLERANCE 0.02f         // relative to the mean: beyond this residual, a pixel's weight in the fit falls
#define SOFT 0.05f              // relative to the mean: below this residual, the loss is quadratic (Huber)
#define MIN_WEIGHT 16.0f        // minimum weight of a fit, in pixels
#define MIN_VARIANCE 1e-5f      // minimum variance of a map's values for a fit

// joint/depth/supervision.py mirrors this layout.
struct DepthMap {
    unsigned long long values;  // address of half [height, width]; 0: the view has no map
    unsigned long long weights; // address of u8 [height, width], 255 is a weight of 1; 0: all weights are 1
    int width, height;          // px, at most the size of the view at full resolution
    float scale;                // of the values, in inverse world units
    int relative;               // 1: scale and shift are fitted to the splats instead
};

struct Sample { float value, weight; };     // weight 0: no depth

// The map at the centre of pixel p of the rendered image: bilinear, or the nearest value at edges.
__device__ __forceinline__ Sample sample_map(const DepthMap& map, const Camera& camera, int p)
{
    Sample none; none.value = none.weight = 0.0f;
    const unsigned char* mask = (const unsigned char*)camera.mask;
    if (mask && !mask[p]) return none;
    const float x = (p % camera.width + 0.5f) * map.width / camera.width - 0.5f;
    const float y = (p / camera.width + 0.5f) * map.height / camera.height - 0.5f;
    const float u = fminf(fmaxf(x, 0.0f), map.width - 1.0f), v = fminf(fmaxf(y, 0.0f), map.height - 1.0f);
    const int x0 = (int)u, y0 = (int)v, x1 = min(x0 + 1, map.width - 1), y1 = min(y0 + 1, map.height - 1);
    const float dx = u - x0, dy = v - y0;
    const int nearest = (dy < 0.5f ? y0 : y1) * map.width + (dx < 0.5f ? x0 : x1);
    const unsigned short* values = (const unsigned short*)map.values;
    const unsigned char* weights = (const unsigned char*)map.weights;
    Sample found;
    found.value = half_to_float(values[nearest]);
    found.weight = found.value > 0.0f ? (weights ? weights[nearest] / 255.0f : 1.0f) : 0.0f;
    const float a = half_to_float(values[y0 * map.width + x0]), b = half_to_float(values[y0 * map.width + x1]);
    const float c = half_to_float(values[y1 * map.width + x0]), d = half_to_float(values[y1 * map.width + x1]);
    const float low = fminf(fminf(a, b), fminf(c, d)), high = fmaxf(fmaxf(a, b), fmaxf(c, d));
    if (low > 0.0f && high <= SMOOTH * low)
        found.value = (1.0f - dy) * ((1.0f - dx) * a + dx * b) + dy * ((1.0f - dx) * c + dx * d);
    return found;
}

__device__ __forceinline__ float target_of(const float* __restrict__ fit /* [3] */, float value)
{
    return fmaxf(fit[1] + fit[0] * (value - 1.0f), 0.0f);       // at most infinitely far
}

// Inverse of the expected depth (blended depth / opacity); 0 if the pixel is too transparent.
__device__ __forceinline__ float expected_inverse(const float* __restrict__ image /* [3, plane] */, int plane, int p)
{
    const float depth = image[plane + p], opacity = image[2 * plane + p];
    return opacity >= OPAQUE && depth > 0.0f && is_finite(depth) ? opacity / depth : 0.0f;
}

// Sums over the view's pixels for fit_depth_map. A thread takes every n-th pixel; a block writes one row of sums.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) sum_depth_map(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const DepthMap* __restrict__ maps,      // [num_views]
    const float* __restrict__ fit,          // [3] of the previous pass
    int reweighted,                         // 1: pixels far from that fit count less; 0: there is no previous pass
    const float* __restrict__ image,        // [3, height, width] green is the blended depth, blue the opacity
    float* __restrict__ rows)               // [gridDim.x, NUM_SUMS]
{
    __shared__ float shared[NUM_SUMS * SUM_THREADS];
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const DepthMap map = maps[state->view];
    float sums[NUM_SUMS] = {};
    const int plane = map.values ? camera.width * camera.height : 0;
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < plane; p += gridDim.x * blockDim.x) {
        const Sample sample = sample_map(map, camera, p);
        if (!(sample.weight > 0.0f)) continue;
        const float x = sample.value - 1.0f, inverse = expected_inverse(image, plane, p);
        sums[0] += sample.weight; sums[1] += sample.weight * x;
        if (!(inverse > 0.0f)) continue;
        float weight = sample.weight;
        if (reweighted) weight *= fminf(TOLERANCE * fit[1] / fmaxf(fabsf(target_of(fit, sample.value) - inverse), 1e-30f), 1.0f);
        sums[2] += weight; sums[3] += weight * x; sums[4] += weight * x * x;
        sums[5] += weight * inverse; sums[6] += weight * x * inverse;
    }
    block_sum<NUM_SUMS>(shared, sums);
    if (threadIdx.x == 0)
        for (int k = 0; k < NUM_SUMS; ++k) rows[blockIdx.x * NUM_SUMS + k] = sums[k];
}

// Finds scale and shift of the view's map by weighted least squares, or takes the given ones, and the divisor of the loss. One block.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) fit_depth_map(
    const IterState* __restrict__ state,    // [1]
    const DepthMap* __restrict__ maps,      // [num_views]
    const float* __restrict__ rows,         // [num_rows, NUM_SUMS]
    int num_rows,
    float* __restrict__ fit)                // [3] scale, shift, 1 / sum of the targets (0: no loss)
{
    __shared__ float shared[NUM_SUMS * SUM_THREADS];
    if (state->overflowed) return;
    float sums[NUM_SUMS];
    sum_rows<NUM_SUMS>(shared, rows, num_rows, sums);
    if (threadIdx.x > 0) return;
    const DepthMap map = maps[state->view];
    float scale = map.scale, shift = scale;
    if (map.relative) {
        const float inv = 1.0f / fmaxf(sums[2], 1e-12f), x = sums[3] * inv, inverse = sums[5] * inv;
        const float variance = sums[4] * inv - x * x;
        scale = (sums[6] * inv - x * inverse) / fmaxf(variance, 1e-12f);
        shift = inverse - scale * x;
        if (!(sums[2] >= MIN_WEIGHT && variance >= MIN_VARIANCE)) scale = 0.0f;
    }
    const float total = scale * sums[1] + shift * sums[0];
    fit[0] = scale; fit[1] = shift;
    fit[2] = scale > 0.0f && shift > 0.0f && total > 0.0f ? 1.0f / total : 0.0f;
}

// Gradient of weight * (weighted sum of h(blended - map inverse depth)) / (weighted sum of the map's). h(x) is |x| beyond SOFT * shift
// and quadratic within. One thread owns one pixel.
extern "C" __global__ void depth_map_loss(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const DepthMap* __restrict__ maps,      // [num_views]
    const float* __restrict__ fit,          // [3]
    float weight, float weight_final,
    int max_steps,
    const float* __restrict__ image,        // [3, height, width]
    float* __restrict__ d_image)            // [3, height, width] red is written
{
    if (state->overflowed || !(fit[2] > 0.0f)) return;
    const Camera& camera = cameras[state->view];
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= camera.width * camera.height) return;
    const Sample sample = sample_map(maps[state->view], camera, p);
    if (!(sample.weight > 0.0f)) return;
    const float slope = fminf(fmaxf((image[p] - target_of(fit, sample.value)) / (SOFT * fit[1]), -1.0f), 1.0f);
    d_image[p] = slope * decayed(weight, weight_final, *state, max_steps) * sample.weight * fit[2];
}
