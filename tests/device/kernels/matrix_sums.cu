// One warp sums like blend_backward with MATRIX_SUMS. A lane's pixels: (lane % 8, lane / 8), and 4 rows below.
#include "raster/matrix_sums.cuh"

extern "C" __global__ void matrix_sums(
    const float* d_image,       // [3, 64] by lane, then by its pixel
    const float* g,             // [8, 64]
    const float* weights,       // [8, 64]
    const float* means,         // [8, 2] px, relative to the middle of the 8x8
    float* sums)                // [8, 9] six moments, three colours
{
    __shared__ MatrixBuffer buffer;
    const int lane = threadIdx.x;
    float d[3][2], of_g[2], of_w[2];
    for (int c = 0; c < 3; ++c)
        for (int k = 0; k < 2; ++k) d[c][k] = d_image[64 * c + 2 * lane + k];
    const Features features = make_features(buffer, lane, d[0], d[1], d[2]);
    for (int n = 0; n < MATRIX_SPLATS; ++n) {
        for (int k = 0; k < 2; ++k) { of_g[k] = g[64 * n + 2 * lane + k]; of_w[k] = weights[64 * n + 2 * lane + k]; }
        buffer.terms[n * TERMS_STRIDE + lane] = matrix_terms(of_g, of_w);
    }
    const int splat = lane >> 2, q = lane & 3;
    const MatrixSums found = sum_terms(buffer, features, lane, means[2 * splat], means[2 * splat + 1]);
    sums[9 * splat + 2 * q] = found.pair.x; sums[9 * splat + 2 * q + 1] = found.pair.y;
    if (q == 0) sums[9 * splat + 8] = found.blue;
}
