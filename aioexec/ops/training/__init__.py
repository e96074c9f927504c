"""Optimizer updates, losses of batches, and metrics."""
