"""Reductions over axes, running sums, and sums by segment."""
