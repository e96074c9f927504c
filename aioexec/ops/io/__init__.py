"""File ops: checkpoints, readers, records, Examples, datasets, summaries."""
