"""The protocols of kernels: their registry, launches of loops, estimates of work, and cancellation."""
