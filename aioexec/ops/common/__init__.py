"""What ops of all topics use: shape rules of element-wise ops, resource handles, strided copies, estimates of work.

Nothing here defines an op that a program would look for by its topic.
"""
