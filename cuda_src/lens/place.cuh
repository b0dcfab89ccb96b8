// Types of the lens families.
#pragma once
#include "vectors.cuh"

struct Place { vfloat x, y; };                      // in the picture of focal length 1
struct Radius { vfloat value, by_r, by_z; };        // radius of the image, and its derivatives with respect to r = |(x, y)| and z
