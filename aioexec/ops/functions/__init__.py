"""Functions of a graph and of Python: `Defun`, calls, functional control flow, `map_fn` and its relatives, `py_func`."""
