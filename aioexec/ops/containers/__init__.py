"""Queues, barriers, accumulators, stacks, staging areas, TensorArrays and TensorLists."""
