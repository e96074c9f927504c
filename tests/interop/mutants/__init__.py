"""Mutants of TensorFlow's GraphDefs: each ends in a result or an `OpError`, within bounds of time and memory.

`sources` exports the graphs, `mutations` changes them, `trials` imports and runs the result, and reports violations. `python -m
tests.interop.mutants --count 2000 --seed 1` makes a number of trials and prints the violations.
"""
