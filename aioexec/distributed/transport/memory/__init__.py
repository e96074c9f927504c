"""A network of peers in one event loop, for tests and simulations."""
