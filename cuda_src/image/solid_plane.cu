// Cells of a plane, such as a wall or floor, that no ray passes through, and depth maps that end at them.
//
// A pixel's ray crosses the plane in one cell. The pixel says about it that its surface is there (within `tolerance` of the plane), behind
// it, or so deep behind it (`deep`) that the cell must be an opening; surfaces in front of the plane say nothing. One thread owns one pixel.
// Launched by splat_cli/render/planes.py.
#include "common.cuh"

#define MIN_SLOPE 0.1f  // minimum sine of the angle between plane and ray: a flatter ray would multiply errors of the plane

// The plane in the camera's frame: points p with normal . p = offset, and rows and columns of cells at axis . p + start.
struct ViewPlane {
    float normal[3], offset, row_axis[3], row_start, column_axis[3], column_start;
};

// Cell that the ray of pixel i crosses, or -1. at: its depth there, `behind`: distance of the pixel's surface from the plane, positive
// behind it.
__device__ int crossed_cell(const ViewPlane& plane, const Camera& c, int i, float depth, int rows, int columns, float& at, float& behind)
{
    const float x = (i % c.width + 0.5f - c.cx) / c.fx, y = (i / c.width + 0.5f - c.cy) / c.fy;
    const float slope = plane.normal[0] * x + plane.normal[1] * y + plane.normal[2];
    at = plane.offset / slope;
    behind = (depth - at) * fabsf(slope);
    if (!(at > 0.0f) || fabsf(slope) < MIN_SLOPE * sqrtf(x * x + y * y + 1.0f)) return -1;
    const float row = at * (plane.row_axis[0] * x + plane.row_axis[1] * y + plane.row_axis[2]) + plane.row_start;
    const float column = at * (plane.column_axis[0] * x + plane.column_axis[1] * y + plane.column_axis[2]) + plane.column_start;
    return row >= 0.0f && row < rows && column >= 0.0f && column < columns ? (int)row * columns + (int)column : -1;
}

extern "C" __global__ void __launch_bounds__(256) count_ends(
    const Camera* __restrict__ cameras,     // [num_views] pinholes
    const ViewPlane* __restrict__ planes,   // [num_views]
    int view,
    float tolerance, float deep,            // world units
    int rows, int columns,                  // of cells
    const float* __restrict__ weights,      // [pixels of the view] 0: no surface
    const float* __restrict__ depths,       // [pixels of the view] world units along the optical axis
    unsigned int* __restrict__ counts)      // [cells, 3] incremented: rays whose surface is at the plane, behind it, deep behind it
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cameras[view].width * cameras[view].height || weights[i] <= 0.0f) return;
    float at, behind;
    const int cell = crossed_cell(planes[view], cameras[view], i, depths[i], rows, columns, at, behind);
    if (cell >= 0 && behind > -tolerance) atomicAdd(counts + 3 * cell + (behind < tolerance ? 0 : behind < deep ? 1 : 2), 1u);
}

extern "C" __global__ void __launch_bounds__(256) end_rays(
    const Camera* __restrict__ cameras,     // [num_views] as in count_ends
    const ViewPlane* __restrict__ planes,   // [num_views]
    int view,
    float tolerance, float deep,
    int rows, int columns,
    const float* __restrict__ weights,      // [pixels of the view]
    float* __restrict__ depths,             // [pixels of the view] in place: at the plane, where the ray crosses a solid cell
    const unsigned char* __restrict__ is_solid)  // [cells]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cameras[view].width * cameras[view].height || weights[i] <= 0.0f) return;
    float at, behind;
    const int cell = crossed_cell(planes[view], cameras[view], i, depths[i], rows, columns, at, behind);
    if (cell >= 0 && behind > -tolerance && behind < deep && is_solid[cell]) depths[i] = at;
}
