"""Queues of other kinds, on servers."""

from tests.interop.behaviours.test_queue_kinds_interop import *  # noqa: F403  # the same programs, another `agree`
