"""TensorFlow's client gets the same results from a server of ours as from TensorFlow's: the programs of the behaviours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.interop.behaviours import (
    test_callables_interop,
    test_closing_interop,
    test_control_flow_interop,
    test_executor_interop,
    test_feeds_and_fetches_interop,
    test_options_interop,
    test_partial_runs_interop,
    test_queue_kinds_interop,
    test_queues_interop,
    test_tables_interop,
)
from tests.interop.behaviours.both import Program
from tests.interop.distributed.served_to_tensorflow import ServerProcess, agreed_of_servers, programs_of

pytestmark = pytest.mark.interop

_WITHOUT = frozenset(
    {
        # TensorFlow's server dies of it, or does not honour it
        "test_another_number_of_values_than_of_feeds_is_refused",
        "test_callable_options_name_feeds_fetches_and_targets",
        "test_a_tensor_is_wired_to_the_place_of_another",
        "test_connections_that_are_refused",
        "test_devices_of_feeds_and_fetches_are_honoured_or_refused",
        # what is a session's elsewhere is a server's
        "test_a_reset_closes_the_live_sessions",
        "test_sessions_made_after_a_reset_start_anew",
        "test_a_handle_is_fed_where_the_tensor_is_wanted",
        "test_variables_live_across_the_runs_of_a_session",
        "test_a_name_and_version_belong_to_one_session_at_a_time",
        "test_the_devices_of_a_session_are_listed",
        "test_a_queue_belongs_to_its_session",
        "test_tables_of_a_session_are_its_own_and_share_by_name",
    }
)

globals().update(
    programs_of(
        test_callables_interop,
        test_closing_interop,
        test_control_flow_interop,
        test_executor_interop,
        test_feeds_and_fetches_interop,
        test_options_interop,
        test_partial_runs_interop,
        test_queue_kinds_interop,
        test_queues_interop,
        test_tables_interop,
        without=_WITHOUT,
    )
)


@pytest.fixture(scope="module")
def our_target() -> Iterator[str]:
    with ServerProcess() as server:
        yield server.target


@pytest.fixture
def agree(tf_of_1x, tf_target, our_target) -> Callable[[Program], Awaitable[Any]]:
    """Runs a program of TensorFlow's client on a server of either kind; returns the common result."""
    return partial(agreed_of_servers, tf_of_1x, tf_target, our_target)
