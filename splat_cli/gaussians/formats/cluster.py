"""Codebooks of numbers and palettes of vectors, by k-means."""

import numpy as np

CODES = 256
_ROUNDS, _PALETTE_ROUNDS = 10, 3
_BLOCK = 1 << 14
"""Vectors per batch."""


def codebook(values: np.ndarray) -> np.ndarray:
    """CODES numbers, float32, ascending, that approximate all of `values`, of any shape.

    Lloyd's algorithm. Half of the initial numbers are evenly spaced over the range, half over the quantiles, so that
    frequent and rare values are close to a number.
    """
    ordered = np.sort(values.astype(np.float64), axis=None)
    if not len(ordered):
        return np.zeros(CODES, np.float32)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    spread = np.linspace(ordered[0], ordered[-1], CODES // 2)
    common = ordered[np.linspace(0, len(ordered) - 1, CODES // 2).astype(int)]
    codes = np.sort(np.concatenate([spread, common]))
    for _ in range(_ROUNDS):
        ends = np.searchsorted(ordered, 0.5 * (codes[1:] + codes[:-1]), side="right")
        begins, ends = np.concatenate([[0], ends]), np.concatenate([ends, [len(ordered)]])
        codes = np.where(ends > begins, (sums[ends] - sums[begins]) / np.maximum(ends - begins, 1), codes)
    return np.sort(codes).astype(np.float32)


def nearest_codes(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Index uint8 of the number in ascending `codes` nearest to each of `values`."""
    middles = 0.5 * (codes[1:].astype(np.float64) + codes[:-1])
    return np.searchsorted(middles, values).astype(np.uint8)


def palette(vectors: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(palette float32 [P, D] of at most `count` vectors, index int [N] of the entry for each of `vectors` [N, D]).

    Two levels, because k-means with tens of thousands of means is slow: about sqrt(count) clusters, each with a number
    of means proportional to its size.
    """
    rng = np.random.default_rng(seed)
    vectors = np.ascontiguousarray(vectors, np.float32)
    if len(vectors) <= count:
        return vectors, np.arange(len(vectors))
    _, cluster = _k_means(vectors, max(1, round(count**0.5)), rng)
    shares = np.bincount(cluster) * (count / len(vectors))
    ends = np.rint(np.cumsum(shares)).astype(int)
    labels, parts, num = np.empty(len(vectors), np.int64), [], 0
    for index, begin, end in zip(range(len(ends)), [0, *ends[:-1]], ends, strict=True):
        members = np.flatnonzero(cluster == index)
        if len(members):
            means, own = _k_means(vectors[members], max(1, end - begin), rng)
            labels[members] = num + own
            parts.append(means)
            num += len(means)
    return np.concatenate(parts), labels


def _k_means(vectors: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(means [<= k, D], label of each vector): Lloyd's algorithm from random vectors; empty clusters are dropped."""
    if len(vectors) <= k:
        return vectors, np.arange(len(vectors))
    means = vectors[rng.choice(len(vectors), k, replace=False)]
    for _ in range(_PALETTE_ROUNDS):
        labels = _nearest(vectors, means)
        order = np.argsort(labels, kind="stable")
        begins = np.unique(labels[order], return_index=True)[1]
        sums = np.add.reduceat(vectors[order].astype(np.float64), begins, axis=0)
        counts = np.diff(np.append(begins, len(vectors)))
        means = (sums / counts[:, None]).astype(np.float32)
    return means, _nearest(vectors, means)


def _nearest(vectors: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Index of the mean nearest to each vector."""
    squares = 0.5 * (means**2).sum(axis=1)
    blocks = [vectors[i : i + _BLOCK] for i in range(0, len(vectors), _BLOCK)]
    return np.concatenate([np.argmin(squares - block @ means.T, axis=1) for block in blocks])
