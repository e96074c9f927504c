"""Training: optimizers and what surrounds a training loop."""
