// Stable least-significant-digit radix sort of 32-bit keys with 32-bit values (Merrill and Grimshaw 2011), a digit a pass:
// count digits a block, scan the counts, scatter. One thread owns ITEMS keys, a warp owns 32 * ITEMS consecutive ones.
// The number of keys stays on the device; blocks past it return.
#define THREADS 256
#define WARPS (THREADS / 32)
#define ITEMS 8
#define BLOCK_KEYS (THREADS * ITEMS)
#define MAX_DIGIT_BITS 8
#define MAX_DIGITS (1 << MAX_DIGIT_BITS)

// Lanes of the warp that hold the same digit.
__device__ __forceinline__ unsigned same_digit(unsigned digit, unsigned valid)
{
    unsigned peers = valid;
#pragma unroll
    for (int b = 0; b < MAX_DIGIT_BITS; ++b) {
        const unsigned ones = __ballot_sync(0xffffffffu, (digit >> b) & 1);
        peers &= (digit >> b) & 1 ? ones : ~ones;
    }
    return peers;
}

extern "C" __global__ void __launch_bounds__(THREADS) radix_count(
    const unsigned* __restrict__ keys,      // [capacity]
    const unsigned* __restrict__ count,     // [1]
    int shift, int num_bits,                // the digit: num_bits bits from bit `shift` on, at most 8
    unsigned num_blocks,                    // row length of block_counts
    unsigned* __restrict__ block_counts)    // [1 << num_bits, num_blocks]
{
    __shared__ unsigned digits[MAX_DIGITS];
    const unsigned n = *count, first = blockIdx.x * BLOCK_KEYS, mask = (1u << num_bits) - 1;
    if (first >= n) return;
    if (threadIdx.x < MAX_DIGITS) digits[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const unsigned i = first + k * THREADS + threadIdx.x;
        if (i < n) atomicAdd(&digits[(keys[i] >> shift) & mask], 1u);
    }
    __syncthreads();
    if (threadIdx.x <= mask) block_counts[threadIdx.x * num_blocks + blockIdx.x] = digits[threadIdx.x];
}

// A block owns one digit: its counts over the blocks become their exclusive prefix; the total goes to digit_counts.
extern "C" __global__ void __launch_bounds__(THREADS) radix_scan(
    const unsigned* __restrict__ count,     // [1]
    unsigned num_blocks,
    unsigned* __restrict__ block_counts,    // [digits, num_blocks]
    unsigned* __restrict__ digit_counts)    // [digits]
{
    __shared__ unsigned warp_sums[WARPS];
    unsigned* row = block_counts + (size_t)blockIdx.x * num_blocks;
    const unsigned used = (*count + BLOCK_KEYS - 1) / BLOCK_KEYS;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned running = 0;
    for (unsigned first = 0; first < used; first += THREADS) {
        const unsigned i = first + threadIdx.x, value = i < used ? row[i] : 0;
        unsigned inclusive = value;
        for (int o = 1; o < 32; o *= 2) {
            const unsigned left = __shfl_up_sync(0xffffffffu, inclusive, o);
            inclusive += lane >= o ? left : 0;
        }
        if (lane == 31) warp_sums[warp] = inclusive;
        __syncthreads();
        unsigned before = 0, all = 0;
        for (int w = 0; w < WARPS; ++w) { before += w < warp ? warp_sums[w] : 0; all += warp_sums[w]; }
        if (i < used) row[i] = running + before + inclusive - value;
        running += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) digit_counts[blockIdx.x] = running;
}

extern "C" __global__ void __launch_bounds__(THREADS) radix_scatter(
    const unsigned* __restrict__ keys,          // [capacity]
    const unsigned* __restrict__ values,        // [capacity]
    const unsigned* __restrict__ count,         // [1]
    int shift, int num_bits,
    unsigned num_blocks,
    const unsigned* __restrict__ block_counts,  // [1 << num_bits, num_blocks] exclusive prefix of each row
    const unsigned* __restrict__ digit_counts,  // [1 << num_bits]
    unsigned* __restrict__ keys_out,            // [capacity]
    unsigned* __restrict__ values_out)          // [capacity]
{
    __shared__ unsigned places[WARPS][MAX_DIGITS];   // of a warp's digit: first its count, then where it begins
    __shared__ unsigned warp_sums[WARPS];
    const unsigned n = *count, mask = (1u << num_bits) - 1;
    if (blockIdx.x * BLOCK_KEYS >= n) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const unsigned first = blockIdx.x * BLOCK_KEYS + warp * 32 * ITEMS + lane;
    for (unsigned d = lane; d < MAX_DIGITS; d += 32) places[warp][d] = 0;
    __syncwarp();

    unsigned key[ITEMS], rank[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) key[k] = first + k * 32 < n ? keys[first + k * 32] : 0xffffffffu;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const unsigned digit = (key[k] >> shift) & mask;
        const unsigned valid = __ballot_sync(0xffffffffu, first + k * 32 < n);
        const unsigned peers = same_digit(digit, valid);
        rank[k] = places[warp][digit] + __popc(peers & ((1u << lane) - 1));
        __syncwarp();
        if (peers && lane == __ffs(peers) - 1 && first + k * 32 < n) places[warp][digit] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();

    // exclusive prefix of the digits, then of the warps within a digit
    const unsigned total = threadIdx.x <= mask ? digit_counts[threadIdx.x] : 0;
    unsigned inclusive = total;
    for (int o = 1; o < 32; o *= 2) {
        const unsigned left = __shfl_up_sync(0xffffffffu, inclusive, o);
        inclusive += lane >= o ? left : 0;
    }
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    unsigned running = inclusive - total;
    for (int w = 0; w < warp; ++w) running += warp_sums[w];
    if (threadIdx.x <= mask) {
        running += block_counts[(size_t)threadIdx.x * num_blocks + blockIdx.x];
        for (int w = 0; w < WARPS; ++w) {
            const unsigned c = places[w][threadIdx.x];
            places[w][threadIdx.x] = running;
            running += c;
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const unsigned i = first + k * 32;
        if (i >= n) continue;
        const unsigned to = places[warp][(key[k] >> shift) & mask] + rank[k];
        keys_out[to] = key[k];
        values_out[to] = values[i];
    }
}
