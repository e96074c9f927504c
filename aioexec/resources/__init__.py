"""Resources: the state of variables, queues, tables and so on, which outlives a step."""
