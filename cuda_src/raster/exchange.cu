// What ranks exchange in a batch, apart from projected splats (receive_splats.cu): gradients on their way to the owners of splats, the
// results of views, and, between two batches, the owners' parameters. In send_sums and copy_share one thread owns one splat, in the
// others one thread owns all. `columns`: the number of a rank's splats, rounded up, the same for each rank.
#include "raster/share.cuh"

// What the rank that shows a view tells all others of it. train/ranked/exchange.py has its size.
struct ViewResult { float loss; int overflowed; };

// From the gradients of a view's splats to what their owners are sent.
extern "C" __global__ void send_sums(
    const IterState* __restrict__ state,    // [1]
    int num_ranks,
    long long stride,                       // floats from rank to rank
    const float* __restrict__ depths,       // [capacity] 0 where invisible: not sent
    const float4* __restrict__ d_splats,    // [capacity, SPLAT_SUMS / 4]
    float* __restrict__ sent)               // [num_ranks, stride] rows of SPLAT_SUMS
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed || !(depths[i] > 0.0f)) return;
    float4* row = (float4*)(sent + rank_of(num_ranks, i) * stride + (size_t)place_in_share(num_ranks, i) * SPLAT_SUMS);
    for (int k = 0; k < SPLAT_SUMS / 4; ++k) row[k] = d_splats[(size_t)i * (SPLAT_SUMS / 4) + k];
}

extern "C" __global__ void send_result(
    const IterState* __restrict__ state,    // [1]
    int num_ranks, int views_per_rank, int view,
    ViewResult* __restrict__ sent)          // [num_ranks, views_per_rank] the same for each rank
{
    const ViewResult result = {checked_loss(*state), state->overflowed};
    for (int r = 0; r < num_ranks; ++r) sent[r * views_per_rank + view] = result;
}

// Once the first num_views views of a batch are rendered: an overflow on any rank makes the batch a no-op on all.
extern "C" __global__ void agree(
    IterState* __restrict__ state,          // [1]
    int num_ranks, int views_per_rank, int num_views,
    const ViewResult* __restrict__ results, // [num_ranks, views_per_rank]
    BatchView* __restrict__ views)          // [num_ranks * views_per_rank] view b is that of rank b % num_ranks
{
    for (int b = 0; b < num_views; ++b) {
        const ViewResult result = results[b % num_ranks * views_per_rank + b / num_ranks];
        views[b].loss = result.loss;
        if (result.overflowed) state->overflowed = 1;
    }
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
