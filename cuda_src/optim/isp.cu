// Applies a camera's image signal processing (isp.cuh) to the rendered image before the loss, and its gradient. Each warp takes every
// n-th row of pixels; in the backward pass it writes one row of sums. A lane owns a pixel.
// Launched by splat_cli/joint/appearance/isp.py. The same in plain NumPy: tests/reference/isp.py.
#include "optim/isp.cuh"
#include "lanes.cuh"

struct Isp {
    float m[MATRIX_VALUES];                 // l = m (x, 1)
    float camera[CAMERA_VALUES];
    float center_x, center_y, inv_radius;   // px
    int width, height;
};

__device__ __forceinline__ Isp load_isp(
    const Camera& camera, const float* photo /* [PHOTO_VALUES] */, const float* values /* [CAMERA_VALUES] */)
{
    Isp k;
    const float gain = exp2f(photo[0]);
    for (int i = 0; i < MATRIX_VALUES; ++i) k.m[i] = gain * (photo[1 + i] + (i % 5 == 0 ? 1.0f : 0.0f));
    for (int i = 0; i < CAMERA_VALUES; ++i) k.camera[i] = values[i];
    k.width = camera.width; k.height = camera.height;
    const float radius = 0.5f * sqrtf((float)k.width * k.width + (float)k.height * k.height);
    k.center_x = 0.5f * k.width + radius * values[CENTER];
    k.center_y = 0.5f * k.height + radius * values[CENTER + 1];
    k.inv_radius = 1.0f / radius;
    return k;
}

// A pixel's position relative to the optical centre, and its squared distance, in units of r.
struct Place { vfloat x, y, r2; };

__device__ __forceinline__ Place place_of(const Isp& k, int x, int y)
{
    Place p;
    p.x = (to_float(x + lane_id()) + (0.5f - k.center_x)) * k.inv_radius;
    p.y = vfloat((y + 0.5f - k.center_y) * k.inv_radius);
    p.r2 = p.x * p.x + p.y * p.y;
    return p;
}

__device__ __forceinline__ vfloat light_of(const float* m /* [4] */, vfloat r, vfloat g, vfloat b)
{
    return m[0] * r + m[1] * g + m[2] * b + m[3];
}

__device__ __forceinline__ vfloat vignetting(const float* a /* [3] */, vfloat r2) { return 1.0f + r2 * (a[0] + r2 * (a[1] + r2 * a[2])); }

// Response u + b1 u (1 - u) + b2 u (1 - u) (1 - 2 u) between black and white, linear beyond them; its slope, and its derivatives with
// respect to b1 and b2.
struct Response { vfloat value, slope, d_b1, d_b2; };

__device__ __forceinline__ Response respond(const float* b /* [2] */, vfloat u)
{
    const vfloat t = vmin(vmax(u, vfloat(0.0f)), vfloat(1.0f)), odd = 1.0f - 2.0f * t, bow = t * (1.0f - t);
    const vfloat below = vmin(u, vfloat(0.0f));
    Response y;
    y.slope = select(u > 1.0f, vfloat(OVEREXPOSED_SLOPE), 1.0f + b[0] * odd + b[1] * (1.0f - 6.0f * bow));
    y.value = t + bow * (b[0] + b[1] * odd) + y.slope * (u - t);
    y.d_b1 = bow + below;
    y.d_b2 = bow * odd + below;
    return y;
}

extern "C" __global__ void apply_isp(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const int* __restrict__ camera_from_view,   // [num_views]
    const float* __restrict__ photo_params, // [num_views, 3, PHOTO_VALUES] values; first and second moments
    const float* __restrict__ camera_params,    // [num_cameras, 3, CAMERA_VALUES]
    const float* __restrict__ image,        // [3, height, width]
    float* __restrict__ changed)            // [3, height, width]
{
    if (state->overflowed) return;
    const int view = state->view;
    const Isp k = load_isp(
        cameras[view], photo_params + view * 3 * PHOTO_VALUES, camera_params + camera_from_view[view] * 3 * CAMERA_VALUES);
    const int plane = k.width * k.height;
    for (int y = blockIdx.x * blockDim.y + threadIdx.y; y < k.height; y += gridDim.x * blockDim.y) {
        for (int x = 0; x < k.width; x += 32) {
            const vbool in = x + lane_id() < k.width;
            const int p = y * k.width + x;
            const Place place = place_of(k, x, y);
            const vfloat r = load_row(image + p, in), g = load_row(image + plane + p, in), b = load_row(image + 2 * plane + p, in);
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                const float* channel = k.camera + c * CHANNEL_VALUES;
                const vfloat u = light_of(k.m + 4 * c, r, g, b) * vignetting(channel, place.r2);
                store_row(changed + c * plane + p, respond(channel + 3, u).value, in);
            }
        }
    }
}

extern "C" __global__ void apply_isp_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const int* __restrict__ camera_from_view,   // [num_views]
    const float* __restrict__ photo_params, // [num_views, 3, PHOTO_VALUES]
    const float* __restrict__ camera_params,    // [num_cameras, 3, CAMERA_VALUES]
    const float* __restrict__ image,        // [3, height, width] before the ISP
    float* __restrict__ d_image,            // [3, height, width] in: gradient after the ISP; out: before it
    float* __restrict__ d_isp)              // [gridDim.x * blockDim.y, ISP_SUMS] row of a warp: sums for m, then for the camera
{
    if (state->overflowed) return;
    const int view = state->view, warp = blockIdx.x * blockDim.y + threadIdx.y;
    const Isp k = load_isp(
        cameras[view], photo_params + view * 3 * PHOTO_VALUES, camera_params + camera_from_view[view] * 3 * CAMERA_VALUES);
    const int plane = k.width * k.height;
    vfloat sums[ISP_SUMS];
    for (int i = 0; i < ISP_SUMS; ++i) sums[i] = 0.0f;
    for (int y = warp; y < k.height; y += gridDim.x * blockDim.y) {
        for (int x = 0; x < k.width; x += 32) {
            const vbool in = x + lane_id() < k.width;
            const int p = y * k.width + x;
            const Place place = place_of(k, x, y);
            const vfloat r = load_row(image + p, in), g = load_row(image + plane + p, in), b = load_row(image + 2 * plane + p, in);
            vfloat d_r = 0.0f, d_g = 0.0f, d_b = 0.0f, d_r2 = 0.0f;
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                const float* m = k.m + 4 * c;
                const float* a = k.camera + c * CHANNEL_VALUES;
                const vfloat light = light_of(m, r, g, b), falloff = vignetting(a, place.r2);
                const Response response = respond(a + 3, light * falloff);
                const vfloat d_y = load_row(d_image + c * plane + p, in), d_u = d_y * response.slope;
                const vfloat d_light = d_u * falloff, d_falloff = d_u * light;
                vfloat* d_m = sums + 4 * c;
                d_m[0] += d_light * r; d_m[1] += d_light * g; d_m[2] += d_light * b; d_m[3] += d_light;
                vfloat* d_a = sums + MATRIX_VALUES + c * CHANNEL_VALUES;
                const vfloat d_a1 = d_falloff * place.r2, d_a2 = d_a1 * place.r2;
                d_a[0] += d_a1; d_a[1] += d_a2; d_a[2] += d_a2 * place.r2;
                d_a[3] += d_y * response.d_b1; d_a[4] += d_y * response.d_b2;
                d_r2 += d_falloff * (a[0] + place.r2 * (2.0f * a[1] + 3.0f * a[2] * place.r2));
                d_r += m[0] * d_light; d_g += m[1] * d_light; d_b += m[2] * d_light;
            }
            sums[MATRIX_VALUES + CENTER] -= 2.0f * place.x * d_r2;
            sums[MATRIX_VALUES + CENTER + 1] -= 2.0f * place.y * d_r2;
            store_row(d_image + p, d_r, in); store_row(d_image + plane + p, d_g, in); store_row(d_image + 2 * plane + p, d_b, in);
        }
    }
    store_sums(d_isp + warp * ISP_SUMS, sums);
}
