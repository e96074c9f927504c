"""Compiled kernels: templates, loops, their cache, and the walker that runs programs of them."""
