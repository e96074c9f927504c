"""Tensors kept in a session under handles."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.resources.manager import ResourceManager
from aioexec.resources.session_state import SessionState, device_of, session_state

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def test_a_handle_names_node_number_and_device_and_no_other_tensor():
    state = SessionState()

    handles = [state.keep(np.zeros(2), "scope/node", DEVICE) for _ in range(2)]

    assert handles == [f"scope/node;0;{DEVICE}", f"scope/node;1;{DEVICE}"]
    assert [device_of(handle) for handle in handles] == [DEVICE, DEVICE]


def test_what_is_kept_is_a_copy_that_cannot_be_written():
    state, value = SessionState(), np.zeros(2)
    handle = state.keep(value, "node", DEVICE)

    value[:] = 1

    assert state.find(handle).tolist() == [0, 0]
    with pytest.raises(ValueError, match="read-only"):
        state.find(handle)[:] = 1


def test_a_deleted_tensor_is_not_found_again():
    state = SessionState()
    handle, other = state.keep(np.zeros(2), "node", DEVICE), state.keep(np.ones(2), "node", DEVICE)

    state.delete(handle)

    with pytest.raises(
        InvalidArgumentError, match=r"The tensor with handle 'node;0;.*' is not in the session store"
    ):
        state.find(handle)
    with pytest.raises(InvalidArgumentError, match="Failed to delete a tensor with handle 'node;0;"):
        state.delete(handle)
    state.discard(handle)
    assert state.find(other).tolist() == [1, 1]
    assert len(state) == 1


def test_each_manager_has_one_session_state():
    resources = ResourceManager()

    assert session_state(resources) is session_state(resources)
    assert session_state(resources) is not session_state(ResourceManager())


@pytest.mark.parametrize("text", ["", "node", "node;1"])
def test_other_texts_are_no_handles(text: str):
    with pytest.raises(InvalidArgumentError, match="expected a handle '<node>;<number>;<device>'"):
        device_of(text)
