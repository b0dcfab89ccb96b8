// Sums of pose_backward.
#pragma once

#define INTRINSICS 3                // of a camera: logarithm of the factor of its focal lengths, shift of its principal point
#define POSE_SUMS (6 + INTRINSICS)  // by rotation, translation and intrinsics
