// CUDA C++ for the host compiler. The generated unit of a kernel file (splat_cli/device/compilation/host_compiler.py) is
//     #include "cpu/shim.h"  /  #include "NAME.cu"  /  #include "cpu/launch.h"  /  SPLAT_CPU_EXPORT(kernel) for each kernel
// Plain kernels run a fiber a thread (fibers.h). Kernels over lanes.cuh run a fiber a warp, its 32 lanes in SIMD vectors.
#pragma once
#define SPLAT_CPU 1

#include "types.h"
#include "fibers.h"
#include "warp.h"
#include "atomics.h"
#include "device_math.h"
