// Number types vfloat, vint, vbool and their operations, for headers that plain kernels and lane kernels share. They are plain
// float, int and bool on the GPU and in plain kernels. In lane kernels (lanes.cuh) on the CPU they hold the values of a warp's
// 32 lanes. Such headers may also call CUDA's functions (sqrtf, fminf, __fmul_rn, ...): cpu/lanes_math.h defines them for vfloat.
#pragma once

#ifndef SPLAT_CPU_LANES
#define PLAIN_NUMBERS

typedef float vfloat;
typedef int vint;
typedef bool vbool;
typedef float3 vfloat3;
typedef float4 vfloat4;

#define SPLAT_LANE static __device__ __forceinline__

SPLAT_LANE vfloat to_float(vint a) { return (float)a; }
SPLAT_LANE vint to_int(vfloat a) { return (int)a; }          // truncates
SPLAT_LANE vint float_bits(vfloat a) { return __float_as_int(a); }
SPLAT_LANE vfloat float_from_bits(vint a) { return __int_as_float(a); }
SPLAT_LANE vfloat select(vbool m, vfloat a, vfloat b) { return m ? a : b; }
SPLAT_LANE vint select(vbool m, vint a, vint b) { return m ? a : b; }
SPLAT_LANE vbool select(vbool m, vbool a, vbool b) { return m ? a : b; }
SPLAT_LANE vint vmin(vint a, vint b) { return min(a, b); }
SPLAT_LANE vint vmax(vint a, vint b) { return max(a, b); }
SPLAT_LANE bool some(vbool m) { return m; }                  // in lane kernels on the CPU: true if any lane is
template <class F> SPLAT_LANE vbool test_each(vint i, F f) { return f(i); }    // f: a scalar test
template <class F> SPLAT_LANE vint map_each(vint i, F f) { return f(i); }      // f: a scalar function

// Each lane accesses p[its own i] if m holds; loads give 0 otherwise.
SPLAT_LANE vfloat load(const float* p, vint i, vbool m) { return m ? p[i] : 0.0f; }
template <class U> SPLAT_LANE vint load(const U* p, vint i, vbool m) { return m ? (int)p[i] : 0; }
template <class U, class T> SPLAT_LANE void store(U* p, vint i, T v, vbool m) { if (m) p[i] = (U)v; }
SPLAT_LANE vfloat4 load4(const float4* p, vint i, vbool m) { return p[m ? i : 0]; }
SPLAT_LANE void load2(const float2* p, vint i, vfloat& x, vfloat& y, vbool m) { const float2 v = p[m ? i : 0]; x = v.x; y = v.y; }
SPLAT_LANE void store4(float4* p, vint i, vfloat4 v, vbool m) { if (m) p[i] = v; }

// ..._own: p is the address of the lane's own element. In lane kernels on the CPU it is that of lane 0, and the elements of the
// other lanes follow at distances of `stride`.
SPLAT_LANE vfloat load_own(const float* p, vbool m) { return m ? *p : 0.0f; }
template <class U> SPLAT_LANE vint load_own(const U* p, vbool m) { return m ? (int)*p : 0; }
template <class U, class T> SPLAT_LANE void store_own(U* p, T v, vbool m) { if (m) *p = (U)v; }
SPLAT_LANE vfloat4 load4_own(const float4* p, vbool m, int stride = 1) { vfloat4 zero = {}; return m ? *p : zero; }
SPLAT_LANE void store4_own(float4* p, vfloat4 v, vbool m, int stride = 1) { if (m) *p = v; }
SPLAT_LANE void load2_own(const float2* p, vfloat& x, vfloat& y, vbool m) { x = m ? p->x : 0.0f; y = m ? p->y : 0.0f; }
SPLAT_LANE void store2_own(float2* p, vfloat x, vfloat y, vbool m) { float2 v; v.x = x; v.y = y; if (m) *p = v; }

#endif
