"""Compilation of kernels: their sources, the compiler of this machine with its cache, NVRTC."""
