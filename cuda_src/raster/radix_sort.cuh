// Radix sort of one tile's keys by one thread, from the least significant byte up (Knuth, TAOCP vol. 3, sec. 5.2.5).
#pragma once

#define SHORT_LIST 32               // number of keys below which insertion sort is faster

__device__ inline void insertion_sort(unsigned long long* keys /* [n] */, unsigned n)
{
    for (unsigned i = 1; i < n; ++i) {
        const unsigned long long key = keys[i];
        unsigned j = i;
        for (; j > 0 && keys[j - 1] > key; --j) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

// Stable sort by four bytes; the lowest one begins at bit `shift`. Skips bytes that are equal in all keys.
__device__ inline void sort_by_word(unsigned long long* keys /* [n] */, unsigned long long* scratch /* [n] */, unsigned n, int shift)
{
    unsigned counts[4][256] = {};
    for (unsigned i = 0; i < n; ++i)
        for (int byte = 0; byte < 4; ++byte) ++counts[byte][keys[i] >> (shift + 8 * byte) & 255u];
    unsigned long long *from = keys, *to = scratch;
    for (int byte = 0; byte < 4; ++byte) {
        const int at = shift + 8 * byte;
        if (counts[byte][from[0] >> at & 255u] == n) continue;
        unsigned begin = 0;
        for (int digit = 0; digit < 256; ++digit) {
            const unsigned count = counts[byte][digit];
            counts[byte][digit] = begin;
            begin += count;
        }
        for (unsigned i = 0; i < n; ++i) to[counts[byte][from[i] >> at & 255u]++] = from[i];
        unsigned long long* const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != keys)
        for (unsigned i = 0; i < n; ++i) keys[i] = scratch[i];
}

// Sorts keys (depth in the high word, splat in the low word): by depth, then equal depths by splat.
__device__ inline void sort_by_depth(unsigned long long* keys /* [n] */, unsigned long long* scratch /* [n] */, unsigned n)
{
    if (n <= SHORT_LIST) {
        insertion_sort(keys, n);
        return;
    }
    sort_by_word(keys, scratch, n, 32);
    for (unsigned begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && keys[end] >> 32 == keys[begin] >> 32;) ++end;
        if (end - begin <= SHORT_LIST) insertion_sort(keys + begin, end - begin);
        else sort_by_word(keys + begin, scratch, end - begin, 0);
    }
}
