// Mean squared distance of each point to its three nearest neighbours; initial splats get their size from it. Exact.
//
// The caller sorts the points along a space-filling curve. Then 16 consecutive points make a small box (a leaf), 8 consecutive
// leaves make a larger box, and so on: a tree without pointers. One thread owns one point: it scans its own leaf, then walks
// the tree from the first leaf to the last and skips every box that is farther away than its third-best neighbour.
// Launched by splat_cli/gaussians/from_points.py. The same in plain NumPy: tests/reference/knn.py.
#include "common.cuh"
#include "vectors.cuh"

#define LEAF 16      // points per leaf; gaussians/from_points.py mirrors LEAF and LOG_FAN
#define LOG_FAN 3    // a box above the leaves holds 2^3 = 8 boxes of the level below
#define NEIGHBORS 3
#define FAR 3.402823466e+38f

struct Nearest { float squared[NEIGHBORS]; };  // ascending

__device__ __forceinline__ void scan_leaf(
    Nearest& best, const float* points /* [num_points, 3] */, int leaf, int num_points, int self, float3 p)
{
    const int end = min((leaf + 1) * LEAF, num_points);
    for (int j = leaf * LEAF; j < end; ++j) {
        const float dx = points[3 * j] - p.x, dy = points[3 * j + 1] - p.y, dz = points[3 * j + 2] - p.z;
        float d = dx * dx + dy * dy + dz * dz;
        if (j == self || !(d < best.squared[NEIGHBORS - 1])) continue;
        for (int k = 0; k < NEIGHBORS; ++k) {  // insert, shifting farther ones down
            const float kept = fminf(best.squared[k], d);
            d = fmaxf(best.squared[k], d);
            best.squared[k] = kept;
        }
    }
}

__device__ __forceinline__ float squared_distance_to_box(const float* box /* [6] low, high */, float3 p)
{
    const float dx = fmaxf(fmaxf(box[0] - p.x, p.x - box[3]), 0.0f);
    const float dy = fmaxf(fmaxf(box[1] - p.y, p.y - box[4]), 0.0f);
    const float dz = fmaxf(fmaxf(box[2] - p.z, p.z - box[5]), 0.0f);
    return dx * dx + dy * dy + dz * dz;
}

extern "C" __global__ void knn(
    const float* __restrict__ points,      // [num_points, 3] sorted along the curve, world units
    const float* __restrict__ boxes,       // [num_boxes, 6] low and high corners; leaves first, then level by level
    const int* __restrict__ level_begins,  // [num_levels] index of each level's first box
    int num_points,
    int num_levels,
    float* __restrict__ mean_squared)      // [num_points] mean over the three nearest other points, or over all if there are fewer
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_points) return;
    const float3 p = make_vec(points[3 * i], points[3 * i + 1], points[3 * i + 2]);
    const int own = i / LEAF, num_leaves = (num_points + LEAF - 1) / LEAF;
    Nearest best = {{FAR, FAR, FAR}};
    scan_leaf(best, points, own, num_points, i, p);

    int leaf = 0, level = num_levels - 1;
    while (leaf < num_leaves) {
        const float* box = boxes + 6 * (level_begins[level] + (leaf >> (LOG_FAN * level)));
        if (squared_distance_to_box(box, p) < best.squared[NEIGHBORS - 1]) {
            if (level > 0) { --level; continue; }
            if (leaf != own) scan_leaf(best, points, leaf, num_points, i, p);
        }
        leaf += 1 << (LOG_FAN * level);
        while (level + 1 < num_levels && (leaf & ((1 << (LOG_FAN * (level + 1))) - 1)) == 0) ++level;
    }

    const int found = min(NEIGHBORS, num_points - 1);
    float sum = 0.0f;
    for (int k = 0; k < found; ++k) sum += best.squared[k];
    mean_squared[i] = found > 0 ? sum / found : 0.0f;
}
