"""Graph functions and Python functions: `Defun`, calls, functional control flow, `map_fn` and the like, `py_func`."""
