"""Coordinators, and the tasks they stop."""
