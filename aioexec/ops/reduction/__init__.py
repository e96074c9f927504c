"""Reductions over axes, cumulative sums, arg-reductions, and segment reductions."""
