// Start an iteration on the device: which photograph, which learning rates, which background; counters back to zero.
// One thread owns the whole step. Everything it needs is in device memory, so that a recorded step can be replayed as it is.
#include "optim/adam.cuh"

// Settings of the run and schedule of its learning rates; `step_background` writes a learned `background` here at each step.
// train/schedule.py mirrors this layout.
struct Schedule {
    float lr_means, lr_means_final; // world units; log-linear between them over max_steps
    float reference_size;           // see IterState in common.cuh
    float lr_log_scales, lr_quats, lr_opacities, lr_sh0, lr_shN;
    float lr_decay;                 // factor of all other rates at max_steps; log-linear from 1 at lr_decay_start
    int lr_decay_start;
    int max_steps;
    int sh_degree, sh_degree_interval;
    int random_background;          // 1: another colour each step
    float background[3];
    unsigned seed;
    int order_length;               // number of steps after which the order of views repeats
};

extern "C" __global__ void begin_step(
    IterState* __restrict__ state,          // [1]
    const Schedule* __restrict__ schedule,  // [1]
    const int* __restrict__ order)          // [order_length] view of step 1, 2, ...
{
    if (state->overflowed) return;
    IterState s = *state;
    const Schedule k = *schedule;
    s.step += 1;
    s.view = order[(s.step - 1) % k.order_length];
    s.sh_degree = min(k.sh_degree, (s.step - 1) / k.sh_degree_interval);
    s.num_large = s.num_pairs = s.num_segments = 0;
    s.loss_l1 = s.loss_l2 = s.loss_ssim = 0.0f;
    s.inv_bias1 = -1.0f / expm1f(s.step * log1pf(BETA1 - 1.0f));
    s.inv_root_bias2 = rsqrtf(-expm1f(s.step * log1pf(BETA2 - 1.0f)));
    const float progress = fminf((float)s.step / (float)max(k.max_steps, 1), 1.0f);
    s.lr[LR_MEANS] = k.lr_means > 0.0f ? k.lr_means * powf(k.lr_means_final / k.lr_means, progress) : 0.0f;
    s.reference_size = k.reference_size;
    const float late = (float)max(s.step - k.lr_decay_start, 0) / (float)max(k.max_steps - k.lr_decay_start, 1);
    const float decay = powf(k.lr_decay, fminf(late, 1.0f));
    s.lr[LR_LOG_SCALES] = decay * k.lr_log_scales; s.lr[LR_QUATS] = decay * k.lr_quats; s.lr[LR_OPACITIES] = decay * k.lr_opacities;
    s.lr[LR_SH0] = decay * k.lr_sh0; s.lr[LR_SHN] = decay * k.lr_shN;
    for (int c = 0; c < 3; ++c)
        s.background[c] = k.random_background ? pcg(pcg(k.seed + 3u * s.step) + c) * (1.0f / 4294967296.0f) : k.background[c];
    *state = s;
}

// Keep what the update of a batch needs of a view. One thread owns it all.
extern "C" __global__ void record_view(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    BatchView* __restrict__ view)           // [1]
{
    if (state->overflowed) return;
    view->camera = cameras[state->view];
    view->loss = checked_loss(*state);
    view->view = state->view;
    view->step = state->step;
    for (int c = 0; c < 3; ++c) view->background[c] = state->background[c];
}

// Go back to the step of a view that record_view has kept. One thread owns it all.
extern "C" __global__ void show_view(
    IterState* __restrict__ state,          // [1]
    const BatchView* __restrict__ view)     // [1]
{
    if (state->overflowed) return;
    return_to(state, *view);
    state->num_large = state->num_pairs = state->num_segments = 0;
    state->loss_l1 = state->loss_l2 = state->loss_ssim = 0.0f;
}

// Show the next of some views without training on it: what density control looks at. One thread owns it all.
extern "C" __global__ void next_view(
    IterState* __restrict__ state,          // [1]
    const int* __restrict__ views,          // [num_looks]
    int* __restrict__ cursor)               // [1] looks done
{
    if (state->overflowed) return;
    state->view = views[(*cursor)++];
    state->num_large = state->num_pairs = state->num_segments = 0;
}
