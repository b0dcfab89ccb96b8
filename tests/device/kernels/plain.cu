// Small kernels that each use one feature of CUDA; the tests know what they compute.

struct Settings { float scale; int offset; unsigned long long data; };

// y[i] = scale * x[i] + data[offset]; one thread per element.
extern "C" __global__ void __launch_bounds__(64) by_value(
    const float* __restrict__ x,        // [N]
    Settings settings, int n,
    float* __restrict__ y)              // [N]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = settings.scale * x[i] + ((const float*)settings.data)[settings.offset];
}

// Stores each argument as the kernel received it.
extern "C" __global__ void scalars(
    int i, unsigned u, float f, double d, unsigned long long q, unsigned char b, const float* nothing,
    double* out)                        // [7]
{
    out[0] = i; out[1] = u; out[2] = f; out[3] = d; out[4] = (double)q; out[5] = b; out[6] = nothing == nullptr;
}

// Which block and thread wrote each element.
extern "C" __global__ void indices(int* out)    // [blocks, threads, 2]
{
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int size = blockDim.x * blockDim.y * blockDim.z;
    out[2 * (block * size + thread)] = block;
    out[2 * (block * size + thread) + 1] = thread;
}

// Reverses each block's 128 elements through shared memory, `rounds` times.
extern "C" __global__ void reverse(int* x /* [blocks, 128] */, int rounds)
{
    __shared__ int s[128];
    int* mine = x + blockIdx.x * 128;
    for (int r = 0; r < rounds; ++r) {
        s[threadIdx.x] = mine[threadIdx.x];
        __syncthreads();
        mine[threadIdx.x] = s[127 - threadIdx.x];
        __syncthreads();
    }
}

// Votes of a block after threads n, n + 1, ... have returned.
extern "C" __global__ void votes(const int* x /* [threads] */, int n, int* out /* [threads, 3] */)
{
    const int i = threadIdx.x;
    if (i >= n) return;
    out[3 * i] = __syncthreads_count(x[i]);
    out[3 * i + 1] = __syncthreads_or(x[i] > 1);
    out[3 * i + 2] = __syncthreads_and(x[i] < 2);
}

// Per warp: inclusive sum, sum, ballot, any, all, broadcast, shift within groups of 8.
extern "C" __global__ void warp_operations(const int* x /* [threads] */, int* out /* [threads, 7] */)
{
    const int lane = threadIdx.x & 31, v = x[threadIdx.x];
    int scan = v, sum = v;
    for (int d = 1; d < 32; d *= 2) {
        const int below = __shfl_up_sync(0xffffffffu, scan, d);
        if (lane >= d) scan += below;
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    }
    int* o = out + 7 * threadIdx.x;
    o[0] = scan; o[1] = sum;
    o[2] = (int)__ballot_sync(0xffffffffu, v & 1);
    o[3] = __any_sync(0xffffffffu, v > 90); o[4] = __all_sync(0xffffffffu, v < 90);
    o[5] = __shfl_sync(0xffffffffu, v, 5); o[6] = __shfl_down_sync(0xffffffffu, v, 3, 8);
}

// Half a warp exchanges while the other half does something else.
extern "C" __global__ void half_warp(int* out /* [32] */)
{
    const int lane = threadIdx.x;
    if (lane < 16) out[lane] = __shfl_xor_sync(0xffffu, lane, 1);
    else out[lane] = -lane;
    __syncwarp();
}

// Every kind of atomic, from all threads of all blocks.
extern "C" __global__ void atomics(float* sum, double* dsum, int* count, unsigned* low, int* high, unsigned* bits,
                                   unsigned long long* big, unsigned* last, int* cas)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, 1.0f); atomicAdd(dsum, 0.5); atomicAdd(count, 1); atomicAdd(big, 1ull << 33);
    atomicMin(low, 1000u + i); atomicMax(high, i - 5);
    atomicOr(bits, 1u << (i % 32));
    atomicExch(last, 7u);
    int seen = *(volatile int*)cas;
    for (int expected; (seen = atomicCAS(cas, expected = seen, seen + 2)) != expected;) {}
}

template <int K> struct Poly {
    static_assert(K > 0, "a degree");
    static __device__ __noinline__ float eval(const float (&c)[K], float x)
    {
        float y = 0.0f;
#pragma unroll
        for (int k = 0; k < K; ++k) y = y * x + c[k];
        return y;
    }
};

// Mathematics and bit tricks; one thread.
extern "C" __global__ void mathematics(float x, float* out /* [24] */, int* bits /* [8] */)
{
    const float c[3] = {1.0f, 2.0f, 3.0f};
    int k = 0;
    out[k++] = expf(x); out[k++] = __expf(x); out[k++] = exp2f(x); out[k++] = logf(x); out[k++] = sqrtf(x);
    out[k++] = rsqrtf(x); out[k++] = fminf(x, 1.0f); out[k++] = fmaxf(x, 1.0f); out[k++] = floorf(x); out[k++] = ceilf(x);
    out[k++] = fabsf(-x); out[k++] = tanhf(x); out[k++] = powf(x, 3.0f); out[k++] = min(x, 2.0f); out[k++] = max(x, 2.0f);
    out[k++] = __fdividef(x, 3.0f); out[k++] = __saturatef(x); out[k++] = __fmaf_rn(x, x, x); out[k++] = Poly<3>::eval(c, x);
    out[k++] = __uint_as_float(__float_as_uint(x) & 0x7fffffffu); out[k++] = fmaf(x, 2.0f, 1.0f); out[k++] = sinf(x);
    out[k++] = cosf(x); out[k++] = isfinite(x) ? 1.0f : 0.0f;
    bits[0] = __popc(0xf0f0u); bits[1] = __clz(1); bits[2] = __ffs(8); bits[3] = min(3, 4); bits[4] = max(3u, 4u);
    bits[5] = (int)__brev(1u); bits[6] = __clz(0); bits[7] = __ffs(0);
}

// a*b - c*c rounded twice, and fused if the compiler wants.
extern "C" __global__ void rounding(float a, float b, float c, float* out /* [1] */)
{
    out[0] = __fsub_rn(__fmul_rn(a, b), __fmul_rn(c, c));
}

// Vector types in memory.
extern "C" __global__ void vectors(const float4* a /* [N] */, const float2* b, const uint2* c, const uchar4* d, float4* out, int n)
{
    const int i = threadIdx.x;
    if (i >= n) return;
    const float4 v = __ldg(a + i);
    out[i] = make_float4(v.x + b[i].x, v.y + b[i].y, v.z + (float)c[i].y, v.w + (float)d[i].w);
}

// Threads of a block wait at two different barriers, which is an error.
extern "C" __global__ void divergent(int* x)
{
    if (threadIdx.x < 16) { __syncthreads(); x[0] = 1; }
    else { __syncthreads(); x[1] = 1; }
}

// A shuffle that half of the lanes never join, which is an error.
extern "C" __global__ void missing_lane(int* x)
{
    if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 16);
    else __syncthreads();
}

// Calls itself until the stack is full, which is an error.
static __device__ __noinline__ int deep(int n, volatile int* x) { volatile int pad[256]; pad[n & 255] = n; x[0] = pad[n & 255]; return n ? deep(n - 1, x) + pad[n & 255] : 0; }
extern "C" __global__ void overflow(int* x, int depth)
{
    __syncthreads();
    x[threadIdx.x] = deep(depth, x);
}

// Writes x[offset + i].
extern "C" __global__ void write_at(float* x, int offset) { x[offset + threadIdx.x] = 1.0f; }
