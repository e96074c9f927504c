"""Element-wise arithmetic, comparisons and functions of numbers, dtype conversions, and Fourier transforms."""
