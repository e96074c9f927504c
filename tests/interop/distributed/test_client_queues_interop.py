"""Queues on servers."""

from tests.interop.behaviours.test_queues_interop import *  # noqa: F403  # the same programs, another `agree`

del test_a_queue_belongs_to_its_session  # noqa: F821  # on a server it belongs to that
