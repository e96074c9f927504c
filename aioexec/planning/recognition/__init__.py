"""Recognition of computations that consist of several nodes, for which there is one kernel; each module has one pass."""
