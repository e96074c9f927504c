"""Who computes: devices, their worker threads, and compiled kernels."""
