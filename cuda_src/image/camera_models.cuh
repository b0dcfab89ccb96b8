// Lens distortion: where a real camera sees the ray at (x / z, y / z) of an ideal one. The families and their coefficients are defined in
// splat_cli/scene/lens/distortion.py; together they cover COLMAP's perspective and fisheye models. Uses double, because polynomials of
// degree 12 need it near the border of a fisheye image.
#pragma once

#define FAMILY_FISHEYE 1            // polynomial: starts with the equidistant projection
#define FAMILY_TANGENTIAL_LAST 2    // polynomial: tangential and prism terms apply to the radially distorted point
#define FAMILY_FOV 4
#define FAMILY_DIVISION 5
#define FAMILY_EUCM 6
#define FAMILY_FTHETA 8

// A camera with distortion. scene/lens/undistort.py mirrors this layout.
struct Lens {
    double fx, fy, cx, cy;          // px
    double c[16];                   // polynomial: radial [6], rational [3], p1, p2, prism [4], skew. Else: omega; k; alpha, beta; or higher [4]
    int width, height;              // px
    int family;
    int padding;
};

struct Point { double x, y; };

__device__ __forceinline__ Point scaled(Point p, double s) { p.x *= s; p.y *= s; return p; }

__device__ __forceinline__ Point distort_polynomial(const double* c /* [16] */, int family, Point p)
{
    if (family & FAMILY_FISHEYE) {
        const double radius = sqrt(p.x * p.x + p.y * p.y);
        if (radius > 1e-9) p = scaled(p, atan(radius) / radius);
    }
    double r2 = p.x * p.x + p.y * p.y;
    const double numerator = 1 + r2 * (c[0] + r2 * (c[1] + r2 * (c[2] + r2 * (c[3] + r2 * (c[4] + r2 * c[5])))));
    const double denominator = 1 + r2 * (c[6] + r2 * (c[7] + r2 * c[8]));
    Point out = scaled(p, numerator / denominator);
    const Point base = family & FAMILY_TANGENTIAL_LAST ? out : p;
    r2 = base.x * base.x + base.y * base.y;
    const double p1 = c[9], p2 = c[10], xy = 2 * base.x * base.y;
    out.x += p1 * xy + p2 * (r2 + 2 * base.x * base.x) + (c[11] + c[12] * r2) * r2;
    out.y += p2 * xy + p1 * (r2 + 2 * base.y * base.y) + (c[13] + c[14] * r2) * r2;
    out.x += c[15] * out.y;
    return out;
}

// Distorted position of a ray; NaN if the lens does not see it.
__device__ __forceinline__ Point distort(const Lens& lens, Point p)
{
    const double* c = lens.c;
    const double r2 = p.x * p.x + p.y * p.y;
    if (lens.family == FAMILY_FOV) {
        const double radius = sqrt(r2), tangent = 2 * tan(c[0] / 2);
        return scaled(p, radius > 1e-9 ? atan(radius * tangent) / (radius * c[0]) : tangent / c[0]);
    }
    if (lens.family == FAMILY_DIVISION) return scaled(p, 2 / (1 + sqrt(1 - 4 * c[0] * r2)));
    if (lens.family == FAMILY_EUCM) {
        const double depth = c[0] * sqrt(c[1] * r2 + 1) + 1 - c[0];
        return scaled(p, depth > 0 ? 1 / depth : nan(""));
    }
    if (lens.family == FAMILY_FTHETA) {
        const double radius = sqrt(r2), a = atan(radius);
        return scaled(p, radius > 1e-9 ? a * (1 + a * (c[0] + a * (c[1] + a * (c[2] + a * c[3])))) / radius : 1);
    }
    return distort_polynomial(c, lens.family, p);
}
