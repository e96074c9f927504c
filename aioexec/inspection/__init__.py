"""Inspection of graphs in files: the plan of a step (`aioexec explain`), and the execution of its rows (`aioexec trace`)."""
