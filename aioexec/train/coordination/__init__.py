"""Coordinators, and the tasks they coordinate."""
