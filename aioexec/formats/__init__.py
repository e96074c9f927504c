"""File and wire formats: protocol buffers, tensors, checkpoints, records, events."""
