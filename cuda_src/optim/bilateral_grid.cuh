// Layout of a photograph's bilateral grid: nodes over the image and over luminance, each with an affine change of colour.
#pragma once
#include "common.cuh"

#define GRID_WIDTH 16               // nodes across the image; the first and the last are on its borders
#define GRID_HEIGHT 16
#define GRID_LEVELS 8               // nodes from black to white
#define AFFINE 12                   // values per node: three rows of three factors and an offset
#define GRID_VALUES (GRID_LEVELS * GRID_HEIGHT * GRID_WIDTH * AFFINE)
#define PATCHES_X (GRID_WIDTH - 1)  // rectangles of the image between four nodes
#define PATCHES_Y (GRID_HEIGHT - 1)
#define CORNERS 4                   // of a patch: top left, top right, bottom left, bottom right

// Index of a node's first value.
__device__ __forceinline__ int node_index(int level, int y, int x)
{
    return ((level * GRID_HEIGHT + y) * GRID_WIDTH + x) * AFFINE;
}
