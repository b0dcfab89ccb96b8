// Moves splats about in the planes [rows, capacity] that hold them, a column a splat: gather, copy, clear, compact.
// In copy_columns and clear_columns a thread owns one element, blockIdx.y is its row; in the others a thread owns one splat.
#include "common.cuh"

// to[r, target[k]] = from[r, source[k]]. No column is both written and read.
extern "C" __global__ void copy_columns(
    const float* __restrict__ from,         // [rows, from_stride]
    long long from_stride,
    const long long* __restrict__ source,   // [num], or null: k
    float* to,                              // [rows, to_stride], may be `from`
    long long to_stride,
    const long long* __restrict__ target,   // [num], or null: k
    int num,
    const long long* __restrict__ limit)    // [1] how many of the num to copy, or null: all
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= num || (limit && k >= *limit)) return;
    to[blockIdx.y * to_stride + (target ? target[k] : k)] = from[blockIdx.y * from_stride + (source ? source[k] : k)];
}

// planes[r, index[k]] = 0, or planes[r, first + k] without an index.
extern "C" __global__ void clear_columns(
    float* __restrict__ planes,             // [rows, stride]
    long long stride,
    const long long* __restrict__ index,    // [num], or null
    long long first,
    int num)
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < num) planes[blockIdx.y * stride + (index ? index[k] : first + k)] = 0.0f;
}

// Which splats have a parameter that is not finite.
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

// A mask as numbers, for the host to have them summed up: sums [i] then counts the mask up to and with i.
extern "C" __global__ void mask_to_integers(
    const bool* __restrict__ mask,          // [num]
    int num,
    long long* __restrict__ ones)           // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num) ones[i] = mask[i];
}

// The indices where a mask is set, in order, and those where it is not.
extern "C" __global__ void partition(
    const bool* __restrict__ mask,          // [num]
    const long long* __restrict__ sums,     // [num]
    const long long* __restrict__ values,   // [num] to put in place of the indices, or null
    int num,
    long long* __restrict__ chosen,         // [sums[num - 1]] or null
    long long* __restrict__ others)         // [num - sums[num - 1]] or null
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const long long value = values ? values[i] : i;
    if (mask[i]) { if (chosen) chosen[sums[i] - 1] = value; }
    else if (others) others[i - sums[i]] = value;
}

// Where the last splats go when those of a mask are removed: the m-th hole among the first num_kept takes the m-th splat to be
// kept beyond them. There are sums[num_kept - 1] of them.
extern "C" __global__ void find_moves(
    const bool* __restrict__ mask,          // [num] what is removed
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

// Places for splats: those of `holes`, then columns from `first` on.
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
