// CUDA C++ for the host compiler. splat_cli/device/compilation/sources.py generates the unit of a kernel file:
//     #include "cpu/shim.h"  /  the text of NAME.cu  /  #include "cpu/launch.h"  /  SPLAT_CPU_EXPORT(kernel) for each kernel
// Plain kernels run one fiber per thread (fibers.h). Lane kernels (lanes.cuh) run one fiber per warp, with its 32 lanes in SIMD vectors.
#pragma once
#define SPLAT_CPU 1

#include "types.h"
#include "fibers.h"
#include "warp.h"
#include "atomics.h"
#include "device_math.h"
