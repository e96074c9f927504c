"""Bytes on disk and wire: protos, tensors, checkpoints, records, events."""
