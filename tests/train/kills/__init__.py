"""Processes that are killed while they save: `lives` starts and kills them, `model` is what they save."""
