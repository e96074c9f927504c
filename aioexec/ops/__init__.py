"""Ops: definition, shape function, reference kernel, native form and gradient of each, and the functions that make its nodes.

One package a topic. A package imports only those above it in the order of `tests/test_layers.py`.
"""
