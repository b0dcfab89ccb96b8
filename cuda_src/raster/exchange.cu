// What ranks exchange in a batch, apart from projected splats (send_splats.cu, receive_splats.cu): gradients on their way to the owners of
// splats, the results of views, and, between two batches, the owners' parameters. In send_sums and copy_share one thread owns one splat,
// in number_visible one block owns all, in the others one thread does.
#include "raster/visible.cuh"

// What the rank that shows a view tells all others of it. train/ranked/exchange.py has its size.
struct ViewResult {
    float loss;
    int overflowed;
    int needed_rows;                        // most visible splats of a rank; all of them were sent if slots have as many rows
};

// First rows of blocks from their numbers of rows, which find_visible has left there.
extern "C" __global__ void number_visible(
    const IterState* __restrict__ state,    // [1]
    int num_blocks,
    unsigned* __restrict__ begins)          // [num_blocks + 1] last: number of visible splats
{
    __shared__ unsigned sums[256];
    if (state->overflowed) return;
    const int share = (num_blocks + blockDim.x - 1) / blockDim.x;
    const int first = min((int)threadIdx.x * share, num_blocks), end = min(first + share, num_blocks);
    unsigned sum = 0;
    for (int b = first; b < end; ++b) sum += begins[b];
    sums[threadIdx.x] = sum;
    __syncthreads();
    unsigned row = 0;                       // every thread adds up its predecessors, as in scan_tiles
    for (int t = 0; t < (int)threadIdx.x; ++t) row += sums[t];
    for (int b = first; b < end; ++b) {
        const unsigned count = begins[b];
        begins[b] = row;
        row += count;
    }
    if (threadIdx.x == blockDim.x - 1) begins[num_blocks] = row;
}

// From the gradients of a view's splats to what their owners are sent: rows as of the splats received.
extern "C" __global__ void send_sums(
    const IterState* __restrict__ state,    // [1]
    int num_ranks, int columns, int rows,
    long long slot_stride,                  // floats from rank to rank
    const float* __restrict__ received,     // [num_ranks, slot_stride] slots of the view
    const float4* __restrict__ d_splats,    // [capacity, SPLAT_SUMS / 4]
    long long stride,                       // floats from rank to rank
    float* __restrict__ sent)               // [num_ranks, stride] rows of SPLAT_SUMS
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed) return;
    const int rank = rank_of(num_ranks, i);
    const VisibleGroup group = group_of(received + rank * slot_stride, columns, place_in_share(num_ranks, i));
    const int row = row_of(group, i % 32);
    if (!has_row(group, i % 32) || row >= rows) return;
    float4* to = (float4*)(sent + rank * stride + (size_t)row * SPLAT_SUMS);
    for (int k = 0; k < SPLAT_SUMS / 4; ++k) to[k] = d_splats[(size_t)i * (SPLAT_SUMS / 4) + k];
}

extern "C" __global__ void send_result(
    const IterState* __restrict__ state,    // [1]
    int num_ranks, int views_per_rank, int view, int columns, int rows,
    long long slot_stride,                  // floats from rank to rank
    const float* __restrict__ received,     // [num_ranks, slot_stride] slots of the view
    ViewResult* __restrict__ sent)          // [num_ranks, views_per_rank] the same for each rank
{
    int needed = 0;
    for (int r = 0; r < num_ranks; ++r) needed = max(needed, num_visible(received + r * slot_stride, columns));
    const ViewResult result = {checked_loss(*state), state->overflowed || needed > rows, needed};
    for (int r = 0; r < num_ranks; ++r) sent[r * views_per_rank + view] = result;
}

// Once the first num_views views of a batch are rendered: an overflow on any rank makes the batch a no-op on all.
extern "C" __global__ void agree(
    IterState* __restrict__ state,          // [1]
    int num_ranks, int views_per_rank, int num_views,
    const ViewResult* __restrict__ results, // [num_ranks, views_per_rank]
    BatchView* __restrict__ views,          // [num_ranks * views_per_rank] view b is that of rank b % num_ranks
    int* __restrict__ needed_rows)          // [1] by any view so far: batches that follow an overflow do not forget what it needed
{
    int needed = *needed_rows;
    for (int b = 0; b < num_views; ++b) {
        const ViewResult result = results[b % num_ranks * views_per_rank + b / num_ranks];
        views[b].loss = result.loss;
        if (result.overflowed) state->overflowed = 1;
        needed = max(needed, result.needed_rows);
    }
    *needed_rows = needed;
    return_to(state, views[num_views - 1]);                             // the state is that after the last view, on all ranks
}

// Between planes of all splats and those of a share. blockIdx.y is the row.
extern "C" __global__ void copy_share(
    Share share, int num, long long stride, int columns,
    int gather,                             // 1: into the planes of all splats; 0: out of them
    float* planes,                          // [rows, stride] of all splats
    float* part)                            // [rows, columns] of the share
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = splat_of(share, j);
    if (j >= columns || i >= num) return;
    float* const in_planes = planes + blockIdx.y * stride + i;
    float* const in_part = part + (size_t)blockIdx.y * columns + j;
    if (gather) *in_planes = *in_part;
    else *in_part = *in_planes;
}
