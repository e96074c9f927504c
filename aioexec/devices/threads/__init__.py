"""Worker threads: pools, their queues, priorities and processors, and the machine code by which threads share work."""
