"""Ops that create, rearrange, index, split and join tensors. Sparse tensors are in `sparse`, tensor lists in `containers`."""
