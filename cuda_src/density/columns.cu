// Moves splats within the planes [rows, columns] that store them, one column per splat: gather, copy, clear, compact. Planes of moments
// and statistics lack the columns of the first splats, which are frozen; these splats are left alone.
// In copy_columns and clear_columns one thread owns one element and blockIdx.y is its row; in the others one thread owns one splat.
// Launched by splat_cli/model/columns.py.
#include "common.cuh"

// to[r, target[k]] = from[r, source[k]]. No column may be both read and written.
extern "C" __global__ void copy_columns(
    const float* __restrict__ from,         // [rows, from_stride]
    long long from_stride,
    const long long* __restrict__ source,   // [num]; null: k
    float* to,                              // [rows, to_stride]; may be the same array as from
    long long to_stride,
    const long long* __restrict__ target,   // [num]; null: k
    int num,
    const long long* __restrict__ limit,    // [1] maximum number of columns to copy; may be null
    long long from_missing, long long to_missing)   // number of splats at the beginning without a column
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= num || (limit && k >= *limit)) return;
    const long long i = (source ? source[k] : k) - from_missing, j = (target ? target[k] : k) - to_missing;
    if (i >= 0 && j >= 0) to[blockIdx.y * to_stride + j] = from[blockIdx.y * from_stride + i];
}

// planes[r, index[k]] = 0, or planes[r, first + k] = 0 without index.
extern "C" __global__ void clear_columns(
    float* __restrict__ planes,             // [rows, stride]
    long long stride,
    const long long* __restrict__ index,    // [num]; may be null
    long long first,
    int num,
    long long missing)                      // number of splats at the beginning without a column
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    const long long i = k < num ? (index ? index[k] : first + k) - missing : -1;
    if (i >= 0) planes[blockIdx.y * stride + i] = 0.0f;
}

// Marks splats that have a parameter that is not finite.
extern "C" __global__ void mark_nonfinite(
    const float* __restrict__ params,       // [rows, capacity]
    int rows, int capacity, int num,
    bool* __restrict__ mask)                // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    bool finite = true;
    for (int r = 0; r < rows; ++r) finite = finite && isfinite(params[(size_t)r * capacity + i]);
    mask[i] = !finite;
}

// A mask as numbers; the host computes their running sums: sums[i] counts the mask up to and including i.
extern "C" __global__ void mask_to_integers(
    const bool* __restrict__ mask,          // [num]
    int num,
    long long* __restrict__ ones)           // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num) ones[i] = mask[i];
}

// Lists the indices at which a mask is set, in order, and those at which it is not.
extern "C" __global__ void partition(
    const bool* __restrict__ mask,          // [num]
    const long long* __restrict__ sums,     // [num]
    const long long* __restrict__ values,   // [num] listed instead of the indices; may be null
    int num,
    long long* __restrict__ chosen,         // [sums[num - 1]]; may be null
    long long* __restrict__ others)         // [num - sums[num - 1]]; may be null
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const long long value = values ? values[i] : i;
    if (mask[i]) { if (chosen) chosen[sums[i] - 1] = value; }
    else if (others) others[i - sums[i]] = value;
}

// Finds the moves that close the holes when marked splats are removed: the m-th hole among the first num_kept columns takes the m-th
// splat after them that is kept. There are sums[num_kept - 1] moves.
extern "C" __global__ void find_moves(
    const bool* __restrict__ mask,          // [num] splats to remove
    const long long* __restrict__ sums,     // [num]
    int num, int num_kept,
    long long* __restrict__ holes,          // [num - num_kept]
    long long* __restrict__ movers)         // [num - num_kept]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    if (i < num_kept) {
        if (mask[i]) holes[sums[i] - 1] = i;
    } else if (!mask[i]) {
        const long long holes_before = num_kept > 0 ? sums[num_kept - 1] : 0;
        movers[(i - num_kept) - (sums[i] - holes_before)] = i;
    }
}

// Lists free columns: the holes, then columns from `first` on.
extern "C" __global__ void list_slots(
    const long long* __restrict__ holes,    // [num_holes]
    int num_holes,
    long long first,
    int count,
    long long* __restrict__ slots)          // [count]
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) slots[k] = k < num_holes ? holes[k] : first + k - num_holes;
}
