"""Ops on ragged tensors, given as their values and row partitions."""
