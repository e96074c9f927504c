"""Callables, on servers."""

from tests.interop.behaviours.test_callables_interop import *  # noqa: F403  # the same programs, another `agree`

del test_a_tensor_is_wired_to_the_place_of_another  # noqa: F821  # servers do not connect tensors
del test_connections_that_are_refused  # noqa: F821  # likewise
del test_devices_of_feeds_and_fetches_are_honoured_or_refused  # noqa: F821  # nor name devices: refused before they are asked
