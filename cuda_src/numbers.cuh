// Types of a lane's numbers, and operations on them, in headers that kernels of both kinds share. In plain kernels, and on the GPU
// in all of them, a lane is a thread: vfloat, vint and vbool are its float, int and bool. In kernels over lanes.cuh on the CPU
// they hold the values of a warp's 32 lanes. Such headers also call CUDA's functions (sqrtf, fminf, __fmul_rn, ...), which
// cpu/lanes_math.h defines for vfloat.
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
SPLAT_LANE bool some(vbool m) { return m; }                  // in kernels over lanes on the CPU: any lane
template <class F> SPLAT_LANE vbool test_each(vint i, F f) { return f(i); }    // of a scalar test
template <class F> SPLAT_LANE vint map_each(vint i, F f) { return f(i); }      // of a scalar function

// Lane i reads p[i of the lane] where m holds, 0 elsewhere.
SPLAT_LANE vfloat load(const float* p, vint i, vbool m) { return m ? p[i] : 0.0f; }
template <class U> SPLAT_LANE vint load(const U* p, vint i, vbool m) { return m ? (int)p[i] : 0; }
template <class U, class T> SPLAT_LANE void store(U* p, vint i, T v, vbool m) { if (m) p[i] = (U)v; }
SPLAT_LANE vfloat4 load4(const float4* p, vint i, vbool m) { return p[m ? i : 0]; }
SPLAT_LANE void store4(float4* p, vint i, vfloat4 v, vbool m) { if (m) p[i] = v; }

// _own: p is the address of the lane's own element; in kernels over lanes on the CPU that of lane 0, and the others follow, each
// `stride` elements further.
SPLAT_LANE vfloat load_own(const float* p, vbool m) { return m ? *p : 0.0f; }
template <class U> SPLAT_LANE vint load_own(const U* p, vbool m) { return m ? (int)*p : 0; }
template <class U, class T> SPLAT_LANE void store_own(U* p, T v, vbool m) { if (m) *p = (U)v; }
SPLAT_LANE vfloat4 load4_own(const float4* p, vbool m, int stride = 1) { vfloat4 zero = {}; return m ? *p : zero; }
SPLAT_LANE void store4_own(float4* p, vfloat4 v, vbool m, int stride = 1) { if (m) *p = v; }
SPLAT_LANE void load2_own(const float2* p, vfloat& x, vfloat& y, vbool m) { x = m ? p->x : 0.0f; y = m ? p->y : 0.0f; }
SPLAT_LANE void store2_own(float2* p, vfloat x, vfloat y, vbool m) { float2 v; v.x = x; v.y = y; if (m) *p = v; }

#endif
