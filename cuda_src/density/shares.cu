// Splats that change their rank in a round of density control. One thread owns one splat. Splats are numbered from 1, because new and
// cleared columns are 0: no splat.
// Launched by splat_cli/train/multi_gpu/shares.py.
#include "common.cuh"

// Numbers all splats before a round. The round copies, moves and clears the numbers like parameters and moments.
extern "C" __global__ void number_splats(
    int num,
    int* __restrict__ params,               // [num]
    int* __restrict__ moments)              // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num) params[i] = moments[i] = i + 1;
}

// Counts splats after a round.
extern "C" __global__ void count_moves(
    const int* __restrict__ params,         // [num] number of the splat whose colours each splat gets
    const int* __restrict__ moments,        // [num] number of the splat whose moments it gets; 0: none
    int num,
    int* __restrict__ counts)               // [3] zero before: other colours, other moments, no moments
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    if (params[i] != i + 1) atomicAdd(&counts[0], 1);
    if (moments[i] == 0) atomicAdd(&counts[2], 1);
    else if (moments[i] != i + 1) atomicAdd(&counts[1], 1);
}

// Fills the columns of the splats of a share from the planes of all ranks. blockIdx.y is the row.
extern "C" __global__ void take_share(
    Share share, int num,                   // the splats to fill, of `num`
    const int* __restrict__ numbers,        // [num] of the splats to copy, 0: zero; null: all keep their number
    const float* __restrict__ parts,        // [num_ranks, rows, columns] splats of each rank; null: only zeros are written
    int num_ranks, int columns,
    long long stride,
    float* __restrict__ planes)             // [rows, stride]
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = splat_of(share, j);
    if (i >= num) return;
    const int from = numbers ? numbers[i] - 1 : i;
    float* const to = planes + blockIdx.y * stride + j;
    if (from < 0) *to = 0.0f;
    else if (parts) *to = parts[((size_t)rank_of(num_ranks, from) * gridDim.y + blockIdx.y) * columns + place_in_share(num_ranks, from)];
}
