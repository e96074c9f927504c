"""The work of GPUs for each op, as launches of generated kernels for concrete shapes."""
