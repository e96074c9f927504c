"""Ops that make, rearrange, index, split and join tensors. Sparse tensors are in `sparse`, lists of tensors in `containers`."""
