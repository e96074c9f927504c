"""Matrix products, decompositions, solvers and diagonals; Python's operators on tensors, of which `@` is one."""
