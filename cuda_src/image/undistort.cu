// Resamples a photograph as a pinhole camera would have taken it, like COLMAP's undistorter: bilinear, black where the lens saw nothing.
// One thread owns one pixel of the new image and follows its ray through the lens.
// Launched by splat_cli/scene/lens/undistort.py. The same in plain NumPy: tests/reference/lens.py.
#include "common.cuh"
#include "image/camera_models.cuh"

// Camera of the new image. scene/lens/undistort.py mirrors this layout.
struct Pinhole {
    double fx, fy, cx, cy;          // px
    int width, height;              // px
};

extern "C" __global__ void __launch_bounds__(256) undistort(
    const Lens lens,
    const Pinhole pinhole,
    const unsigned char* __restrict__ photo,    // [lens.height, lens.width, 3]
    const unsigned char* __restrict__ keep,     // [lens.height, lens.width] 0: the pixel does not count; may be null
    unsigned char* __restrict__ picture,        // [pinhole.height, pinhole.width, 3]
    unsigned char* __restrict__ mask)           // [pinhole.height, pinhole.width] 255 if the pixel counts, else 0
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= pinhole.width || row >= pinhole.height) return;
    Point ray;
    ray.x = (column + 0.5 - pinhole.cx) / pinhole.fx;
    ray.y = (row + 0.5 - pinhole.cy) / pinhole.fy;
    const Point seen = distort(lens, ray);
    const double x = seen.x * lens.fx + lens.cx - 0.5, y = seen.y * lens.fy + lens.cy - 0.5;
    const size_t pixel = (size_t)row * pinhole.width + column;
    // All four neighbours must lie in the photograph. NaN fails every comparison.
    if (!(x >= 0 && y >= 0 && x < lens.width - 1 && y < lens.height - 1)) {
        for (int c = 0; c < 3; ++c) picture[3 * pixel + c] = 0;
        mask[pixel] = 0;
        return;
    }
    const int x0 = (int)x, y0 = (int)y;
    const float dx = (float)(x - x0), dy = (float)(y - y0);
    const size_t top = (size_t)y0 * lens.width + x0, bottom = top + lens.width;
    for (int c = 0; c < 3; ++c) {
        const float upper = photo[3 * top + c] * (1 - dx) + photo[3 * (top + 1) + c] * dx;
        const float lower = photo[3 * bottom + c] * (1 - dx) + photo[3 * (bottom + 1) + c] * dx;
        picture[3 * pixel + c] = (unsigned char)(upper * (1 - dy) + lower * dy + 0.5f);
    }
    const bool counts = !keep || (keep[top] && keep[top + 1] && keep[bottom] && keep[bottom + 1]);
    mask[pixel] = counts ? 255 : 0;
}
