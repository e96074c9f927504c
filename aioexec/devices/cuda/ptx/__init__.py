"""LLVM IR of kernels for NVIDIA GPUs, and PTX from it."""
