"""Merging rows of a layout: element-wise rows into one kernel, epilogues into the kernel before them."""
