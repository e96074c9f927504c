"""Layouts: an item's rows and buffers for concrete shapes, and the variants made of them."""
