"""Optimizer updates, losses and metrics."""
