"""The protocols of kernels: kernel types, registry, launches of compiled loops, work estimates, cancellation."""
