"""Optimizers, learning rates and moving averages."""
