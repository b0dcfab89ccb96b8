// Image signal processing (ISP) of a camera: from the light of the scene to the colours of a photograph (Deutsch et al. 2026, "PPISP:
// Physically-Plausible Compensation and Control of Photometric Variations in Radiance Field Reconstruction").
//
//     l = 2^exposure (x + D (x, 1))            per photograph: gain, white balance and haze
//     u = l (1 + a1 r^2 + a2 r^4 + a3 r^6)     per camera and channel: vignetting at distance r from the optical centre
//     y = curve(u)                             per camera and channel: response
//
// r is 1 at half the image diagonal. If all parameters are 0, the image does not change.
#pragma once
#include "common.cuh"

#define PHOTO_VALUES 13             // per photograph: exposure, then D as three rows of three factors and an offset
#define CHANNEL_VALUES 5            // per channel of a camera: a1, a2, a3 and the curve's b1, b2
#define CENTER 15                   // index of the optical centre's x and y among a camera's values, in units of r from the middle
#define CAMERA_VALUES 17
#define MATRIX_VALUES 12            // 2^exposure (I + D): its gradient is summed over pixels
#define ISP_SUMS (MATRIX_VALUES + CAMERA_VALUES)
#define OVEREXPOSED_SLOPE 0.1f      // slope of the curve beyond white, where photographs are clipped; not 0, so that colours can return
#define MAX_CURVATURE 0.9f          // limit of |b1| + |b2|; below 1 the curve rises everywhere
