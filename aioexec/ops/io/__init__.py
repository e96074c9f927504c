"""Files: checkpoints, readers, records, examples, data sets, summaries."""
