// Data that ranks exchange in a batch besides projected splats (project_share.cu, receive_splats.cu): gradients for the owners of the
// splats, and results of views. One thread owns one splat in send_sums; the other kernels have one thread.
// Launched by splat_cli/train/multi_gpu/sharded_views.py.
#include "raster/visible.cuh"

// Result of a view. The rank that renders the view sends it to all others. train/multi_gpu/sharded_views.py knows its size.
struct ViewResult {
    float loss;
    int overflowed;
    int needed_rows;                        // largest number of visible splats of a rank; all were sent if the messages have this many rows
};

// Packs the gradients of a view's splats for the splats' owners. Gradients of this rank's own splats go to `kept`.
extern "C" __global__ void send_sums(
    const IterState* __restrict__ state,    // [1]
    ViewMessages messages,
    int columns, int rows,
    const float4* __restrict__ d_splats,    // [capacity, SPLAT_SUMS / 4]
    float* __restrict__ kept,               // [num_ranks, rows, SPLAT_SUMS] only this rank's part is written
    float* __restrict__ sent)               // [num_ranks, rows, SPLAT_SUMS] all other parts are written
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed) return;
    const int r = rank_of(messages.num_ranks, i);
    const VisibleGroup group = group_of(message_of(messages, r), place_in_share(messages.num_ranks, i));
    const int row = row_of(group, i % 32);
    if (!has_row(group, i % 32) || row >= rows) return;
    float4* to = (float4*)((r == messages.rank ? kept : sent) + ((size_t)r * rows + row) * SPLAT_SUMS);
    for (int k = 0; k < SPLAT_SUMS / 4; ++k) to[k] = d_splats[(size_t)i * (SPLAT_SUMS / 4) + k];
}

// Runs after the view is rendered and its loss is known.
extern "C" __global__ void send_result(
    const IterState* __restrict__ state,    // [1]
    ViewMessages messages,
    int columns, int rows,
    ViewResult* __restrict__ kept,          // [num_ranks] as in send_sums
    ViewResult* __restrict__ sent)          // [num_ranks]
{
    int needed = 0;
    for (int r = 0; r < messages.num_ranks; ++r) needed = max(needed, num_visible(message_of(messages, r)));
    const ViewResult result = {checked_loss(*state), state->overflowed || needed > rows, needed};
    for (int r = 0; r < messages.num_ranks; ++r) (r == messages.rank ? kept : sent)[r] = result;
}

// Runs after the first num_views views of a batch. If one rank overflowed, the batch becomes a no-op on all ranks.
extern "C" __global__ void agree(
    IterState* __restrict__ state,          // [1]
    int num_views,
    const ViewResult* __restrict__ results, // [num_views]
    BatchView* __restrict__ views,          // [num_views]
    int* __restrict__ needed_rows)          // [1] maximum over all views so far; later batches keep it
{
    int needed = *needed_rows;
    for (int b = 0; b < num_views; ++b) {
        const ViewResult result = results[b];
        views[b].loss = result.loss;
        if (result.overflowed) state->overflowed = 1;
        needed = max(needed, result.needed_rows);
    }
    *needed_rows = needed;
    set_view(state, views[num_views - 1]);                                 // all ranks have the state after the last view
}
