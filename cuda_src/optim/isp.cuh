// A camera's image signal processing (ISP): what lies between the light of the scene and the colours of a photograph, after Deutsch et al.,
// "PPISP: Physically-Plausible Compensation and Control of Photometric Variations in Radiance Field Reconstruction" (2026).
//
//     l = 2^exposure (x + D (x, 1))            of a photograph: gain, white balance and haze
//     u = l (1 + a1 r^2 + a2 r^4 + a3 r^6)     of a camera and channel: vignetting at distance r from the optical centre
//     y = curve(u)                             of a camera and channel: response
//
// r is 1 at half the picture's diagonal. All parameters are 0 where the picture stays as it is.
#pragma once
#include "common.cuh"

#define PHOTO_VALUES 13             // of a photograph: exposure, then D as three rows of three factors and an offset
#define CHANNEL_VALUES 5            // of a camera's channel: a1, a2, a3 and the curve's b1, b2
#define CENTER 15                   // of a camera's values: after three channels, the centre's x and y in units of r, from the middle
#define CAMERA_VALUES 17
#define MATRIX_VALUES 12            // 2^exposure (I + D), whose gradient the pixels sum
#define ISP_SUMS (MATRIX_VALUES + CAMERA_VALUES)
#define OVEREXPOSED_SLOPE 0.1f      // of the curve beyond white, where photographs are clipped: not 0, by which colours would stay there
#define MAX_CURVATURE 0.9f          // of |b1| + |b2|; under 1 the curve rises everywhere
