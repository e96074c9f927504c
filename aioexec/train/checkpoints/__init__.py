"""Savers, checkpoints, and graphs as files."""
