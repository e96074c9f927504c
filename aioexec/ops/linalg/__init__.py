"""Matrix products, decompositions, solvers and diagonals; also the table of Python's operators on tensors, such as `@`."""
