"""Recurrent networks: cells, wrappers of cells, and the functions that run a cell over the steps of a sequence.

A cell is called as `output, new_state = cell(inputs, state)`. Inputs, outputs and states may be nested structures of tensors,
whose first dimension is the batch.
"""
