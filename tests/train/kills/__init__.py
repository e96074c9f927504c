"""Processes that are killed while they save: `lives` begins and ends them, `model` is what they save."""
