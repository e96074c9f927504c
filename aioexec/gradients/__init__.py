"""Reverse-mode differentiation of graphs: `gradients`, gradients of control flow and functions, and rules by name."""
