"""Data sets of record files: their readers, decoders and queues."""
