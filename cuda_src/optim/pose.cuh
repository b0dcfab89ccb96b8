// Layout of the sums of pose_backward.
#pragma once

// Per camera: log of the factor of its focal lengths, shift of its principal point, k1 and k2.
#ifdef RADIAL_DISTORTION
#define INTRINSICS 5
#else
#define INTRINSICS 3
#endif
#define POSE_SUMS (6 + INTRINSICS)  // rotation, translation, intrinsics
