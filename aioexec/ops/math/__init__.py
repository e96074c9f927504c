"""Element-wise arithmetic, comparison and functions of numbers, conversions between dtypes, and Fourier transforms."""
