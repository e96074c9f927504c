"""Ops: the definition, shape function, reference kernel, native form and gradient of each, and the functions that add its
nodes.

One package per topic. A package imports only those above it in the order of `tests/test_layers.py`.
"""
