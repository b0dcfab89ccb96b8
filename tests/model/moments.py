"""Moments for tests: words from arrays, and back."""

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.model.model import packed_moments


def set_moments(backend: Backend, moments: DeviceArray, first: np.ndarray, second: np.ndarray) -> None:
    """Set both moments to float arrays [rows, columns], rounded."""
    words = packed_moments(first.astype(np.float32), second.astype(np.float32))
    moments[:, : words.shape[1]] = backend.upload(words)


def unpacked(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second moments of words, float64."""
    bits = np.ascontiguousarray(words).view(np.uint32)
    return (bits << 16).view(np.float32).astype(np.float64), (bits & 0xFFFF0000).view(np.float32).astype(np.float64)
