"""Splitting expensive rows of a layout into tasks that several threads run."""
