// One warp sums columns as blend_backward does with MATRIX_SUMS. A lane's pixels: (lane % 8, lane / 8) and 4 rows below.
#include "raster/matrix_sums.cuh"

extern "C" __global__ void matrix_sums(
    const float* d_image,       // [3, 64] by lane, then by its pixel
    const float* g,             // [8, 64]
    const float* weights,       // [8, 64]
    const float* means,         // [8, 2] px from the middle of the 8x8
    float* sums)                // [8, 9] six moments, three colours
{
    __shared__ MatrixBuffer buffer;
    const int lane = threadIdx.x;
    float d[3][2], of_g[2], of_w[2];
    for (int c = 0; c < 3; ++c)
        for (int k = 0; k < 2; ++k) d[c][k] = d_image[64 * c + 2 * lane + k];
    const FirstOperand first = make_first_operand(buffer, lane, d[0], d[1], d[2]);
    for (int n = 0; n < COLUMNS; ++n) {
        for (int k = 0; k < 2; ++k) { of_g[k] = g[64 * n + 2 * lane + k]; of_w[k] = weights[64 * n + 2 * lane + k]; }
        put_column(buffer, n, lane, of_g, of_w);
    }
    const ColumnSums found = sum_columns(buffer, first, lane);
    for (int e = 0; e < 2; ++e) {
        const int row = lane >> 2, n = 2 * (lane & 3) + e;
        const float moment = about_mean(found.moment[e], lane, means[2 * n], means[2 * n + 1]);
        if (row < 6) sums[9 * n + row] = moment;
        if (row < 3) sums[9 * n + 6 + row] = found.color[e];
    }
}
