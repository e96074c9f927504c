"""Savers, checkpoints, and files of graphs."""
