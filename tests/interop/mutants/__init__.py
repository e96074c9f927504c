"""Mutants of TensorFlow's GraphDefs: each ends in a result or an `OpError`, soon and in little memory.

`sources` exports the graphs, `mutations` changes them, `trials` imports and runs what came of it, and reports breaches.
`python -m tests.interop.mutants --count 2000 --seed 1` makes a number of trials and prints the breaches.
"""
