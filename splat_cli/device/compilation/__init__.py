"""Compilation of kernels: their sources, the host's C++ compiler and its cache, NVRTC."""
