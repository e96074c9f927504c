"""Ops on sparse tensors."""
