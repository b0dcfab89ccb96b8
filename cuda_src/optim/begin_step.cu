// Starts a step on the device: chooses the photograph, learning rates and background, and resets counters. Everything these kernels
// need is in device memory, so that a captured step can be replayed without new arguments. Each kernel runs in one thread, except
// begin_views, begin_batch and next_views (one block, one thread per view).
//
// One state, without projecting ahead: begin_step, then project and render the view, for each view.
//
// Two states, projecting ahead in a batch (ViewPipeline in train/step.py). State S is rendered, while state N is already at the
// next view. copy_view_state hands over:
//
//              stream of S                              parallel branch of N
//     view 0   begin_step(S), project
//              copy_view_state(S -> N) ---------------> N is at view 0
//              render, differentiate                    begin_step(N), project view 1
//     view 1   copy_view_state(N -> S) <--------------- N is at view 1
//              render, differentiate                    begin_step(N), project view 2
//     view 2   copy_view_state(N -> S) <--------------- N is at view 2
//              render, differentiate, update
//
// A state per view, for views of a batch that are rendered at the same time, on branches (BatchStep._launch_branches):
//
//     begin_views(S)        states[0 .. count - 1] are at the views of the batch
//                           branch i: project, render, differentiate views i, i + branches, ...
//     end_views(S)          S is at the last view; update
//
// Several ranks project their splats into all views of a batch first, so each rank starts all views at once:
//
//     begin_batch(S)        views[0 .. count - 1] are recorded; S is at the first view that this rank renders
//                           project a share into all views, exchange, render the first view
//     restore_view(S)       S is at the rank's next view; render it; and so on
//     agree (exchange.cu)   S is at the last view of the batch on all ranks; update
//
// next_view and next_views replace begin_step and begin_batch when density control scores views.
// Launched by splat_cli/train/step.py.
#include "optim/adam.cuh"

// Settings of the run and schedule of learning rates. step_background writes a learned `background` here in each step.
// train/schedule.py mirrors this layout.
struct Schedule {
    float lr_means, lr_means_final; // world units; log-linear from the first to the second over max_steps
    float reference_size;           // see IterState in common.cuh
    float lr_log_scales, lr_quats, lr_opacities, lr_sh0, lr_shN, lr_field, lr_field_features;
    float lr_decay;                 // factor of all other rates at max_steps; log-linear from 1 at step lr_decay_start
    int lr_decay_start;
    int max_steps;
    int sh_degree, sh_degree_interval;
    int random_background;          // 1: a new colour in each step
    float background[3];
    unsigned seed;
    int order_length;               // the order of views repeats after this many steps
};

__device__ __forceinline__ void clear_counts(IterState& s)
{
    s.num_large = s.num_pairs = 0;
    for (unsigned& num : s.segments_in_bins) num = 0;
}

__device__ __forceinline__ void clear_sums(IterState& s)
{
    clear_counts(s);
    s.loss_l1 = s.loss_l2 = s.loss_ssim = 0.0f;
}

// Sets view, degree and background of step s.step.
__device__ __forceinline__ void begin_view(IterState& s, const Schedule& k, const int* __restrict__ order /* [order_length] */)
{
    s.view = order[(s.step - 1) % k.order_length];
    s.sh_degree = min(k.sh_degree, (s.step - 1) / k.sh_degree_interval);
    clear_sums(s);
    for (int c = 0; c < 3; ++c)
        s.background[c] = k.random_background ? pcg(pcg(k.seed + 3u * s.step) + c) * (1.0f / 4294967296.0f) : k.background[c];
}

// Sets the learning rates of the update after step s.step.
__device__ __forceinline__ void set_rates(IterState& s, const Schedule& k)
{
    set_bias(s, (float)s.step);
    s.lr[LR_MEANS] = log_linear(k.lr_means, k.lr_means_final, (float)s.step / (float)max(k.max_steps, 1));
    s.reference_size = k.reference_size;
    const float late = (float)max(s.step - k.lr_decay_start, 0) / (float)max(k.max_steps - k.lr_decay_start, 1);
    const float decay = powf(k.lr_decay, fminf(late, 1.0f));
    s.lr[LR_LOG_SCALES] = decay * k.lr_log_scales; s.lr[LR_QUATS] = decay * k.lr_quats; s.lr[LR_OPACITIES] = decay * k.lr_opacities;
    s.lr[LR_SH0] = decay * k.lr_sh0; s.lr[LR_SHN] = decay * k.lr_shN;
    s.lr[LR_FIELD] = decay * k.lr_field; s.lr[LR_FIELD_FEATURES] = decay * k.lr_field_features;
}

extern "C" __global__ void begin_step(
    IterState* __restrict__ state,          // [1]
    const Schedule* __restrict__ schedule,  // [1]
    const int* __restrict__ order)          // [order_length] views of steps 1, 2, ...
{
    if (state->overflowed) return;
    IterState s = *state;
    const Schedule k = *schedule;
    s.step += 1;
    begin_view(s, k, order);
    set_rates(s, k);
    *state = s;
}

// Copies the state of a view between the two states (see above), except the values that accumulate over steps. One thread.
extern "C" __global__ void copy_view_state(
    const IterState* __restrict__ from,     // [1]
    IterState* __restrict__ to)             // [1]
{
    IterState s = *from;
    s.loss = to->loss; s.psnr = to->psnr;
    s.skipped_updates = to->skipped_updates; s.skipped_steps = to->skipped_steps;
    *to = s;
}

// Starts all views of a batch, which are rendered at the same time, each with a state of its own; *state is at the last of them.
// One block, one thread per view.
extern "C" __global__ void begin_views(
    IterState* __restrict__ state,          // [1]
    const Schedule* __restrict__ schedule,  // [1]
    const int* __restrict__ order,          // [order_length] view of step 1, 2, ...
    int count,
    IterState* __restrict__ states)         // [count]
{
    IterState s = *state;
    const Schedule k = *schedule;
    const int b = min((int)threadIdx.x, count - 1);
    if (!s.overflowed) {
        s.step += 1 + b;
        begin_view(s, k, order);
        set_rates(s, k);
    }
    __syncthreads();                        // all threads have read the state
    if (b != (int)threadIdx.x) return;
    states[b] = s;
    if (b == count - 1) *state = s;
}

// After begin_views and the rendering of all views: *state becomes that of the last one, with the means of all, and has overflowed
// if one of them has. A view that follows an overflowed one on its branch has not started from empty lists of tiles: it overflows, too,
// and needs fewer pairs than it has counted. One thread.
extern "C" __global__ void end_views(
    IterState* __restrict__ state,          // [1]
    const IterState* __restrict__ states,   // [count]
    int count, int branches)                // view b is on branch b % branches
{
    if (state->overflowed) return;
    const float loss = state->loss, psnr = state->psnr;
    IterState s = states[count - 1];
    const bool is_first = s.step <= count;  // its first view sets the running means
    s.loss = is_first ? states[0].loss : loss;
    s.psnr = is_first ? states[0].psnr : psnr;
    s.needed_pairs = 0;
    for (int b = 0; b < count; ++b) {
        const IterState& view = states[b];
        if (!is_first) { s.loss += view.loss - loss; s.psnr += view.psnr - psnr; }
        if (view.overflowed) s.overflowed = 1;
        if (b < branches || !states[b - branches].overflowed) s.needed_pairs = max(s.needed_pairs, view.needed_pairs);
    }
    *state = s;
}

// Stores the values that the update of a batch needs of a view.
__device__ __forceinline__ void record(const Camera* __restrict__ cameras /* [num_views] */, const IterState& s, BatchView& view)
{
    view.camera = cameras[s.view];
    view.loss = checked_loss(s);
    view.view = s.view;
    view.step = s.step;
    view.sh_degree = s.sh_degree;
    for (int c = 0; c < 3; ++c) view.background[c] = s.background[c];
}

// One thread.
extern "C" __global__ void record_view(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    BatchView* __restrict__ view)           // [1]
{
    if (!state->overflowed) record(cameras, *state, *view);
}

__device__ __forceinline__ void restart_view(IterState* state /* [1] */, const BatchView& view)
{
    set_view(state, view);
    clear_sums(*state);
}

__device__ __forceinline__ void clear_messages(int count, int stride, float* __restrict__ messages /* [count, stride] */)
{
    for (int b = threadIdx.x; b < count; b += blockDim.x) messages[(size_t)b * stride] = 0.0f;
}

// begin_step and record_view for all views of a batch; then restore_view for view number `first_rendered`, the first that this rank
// renders, if there is one. One block, one thread per view.
extern "C" __global__ void begin_batch(
    IterState* __restrict__ state,          // [1]
    const Schedule* __restrict__ schedule,  // [1]
    const int* __restrict__ order,          // [order_length] view of step 1, 2, ...
    const Camera* __restrict__ cameras,     // [num_views]
    int count, int first_rendered,
    int stride,
    float* __restrict__ messages,           // [count, stride] the number of visible splats of each is set to 0 (visible.cuh)
    BatchView* __restrict__ views)          // [count]
{
    if (state->overflowed) return;
    clear_messages(count, stride, messages);
    IterState s = *state;
    const Schedule k = *schedule;
    const int b = min((int)threadIdx.x, count - 1);
    s.step += 1 + b;
    begin_view(s, k, order);
    if (b == (int)threadIdx.x) record(cameras, s, views[b]);
    __syncthreads();                        // all threads have read the state, and `views` is complete
    if ((int)threadIdx.x != count - 1) return;
    set_rates(s, k);
    *state = s;
    if (first_rendered < count) restart_view(state, views[first_rendered]);
}

// Returns to the step of a view stored by record_view. One thread.
extern "C" __global__ void restore_view(
    IterState* __restrict__ state,          // [1]
    const BatchView* __restrict__ view)     // [1]
{
    if (!state->overflowed) restart_view(state, *view);
}

// Goes to the next of the views that density control scores, without training on it. One thread.
extern "C" __global__ void next_view(
    IterState* __restrict__ state,          // [1]
    const int* __restrict__ views,          // [num_scored]
    int* __restrict__ cursor)               // [1] number of views scored so far
{
    if (state->overflowed) return;
    state->view = views[(*cursor)++];
    clear_counts(*state);
}

// next_view and record_view for `count` views at once, as in begin_batch. One block, one thread per view.
extern "C" __global__ void next_views(
    IterState* __restrict__ state,          // [1]
    const int* __restrict__ scored,         // [num_scored]
    int* __restrict__ cursor,               // [1] number of views scored so far
    const Camera* __restrict__ cameras,     // [num_views]
    int count, int first_rendered,
    int stride,
    float* __restrict__ messages,           // [count, stride] as in begin_batch
    BatchView* __restrict__ views)          // [count]
{
    if (state->overflowed) return;
    clear_messages(count, stride, messages);
    IterState s = *state;
    const int b = min((int)threadIdx.x, count - 1), first = *cursor;
    s.view = scored[first + b];
    if (b == (int)threadIdx.x) record(cameras, s, views[b]);
    __syncthreads();
    if ((int)threadIdx.x != count - 1) return;
    *cursor = first + count;
    *state = s;
    if (first_rendered < count) restart_view(state, views[first_rendered]);
}
