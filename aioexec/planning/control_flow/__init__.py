"""Passes over loops, conditionals and function bodies: inlining, lowering, and folding into single nodes."""
