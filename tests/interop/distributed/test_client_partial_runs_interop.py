"""Partial runs, on servers."""

from tests.interop.behaviours.test_partial_runs_interop import *  # noqa: F403  # the same programs, another `agree`
