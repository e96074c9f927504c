"""`aioexec checkpoint`: lists, compares, averages and converts checkpoints, one tensor at a time."""
