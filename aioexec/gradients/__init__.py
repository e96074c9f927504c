"""Backpropagation over graphs."""
