"""Devices, their worker threads, and compiled kernels."""
