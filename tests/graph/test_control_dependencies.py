"""Scopes of control dependencies."""

from __future__ import annotations

import aioexec as ax


def test_what_waits_is_listed_outermost_scope_first(graph):
    first, second = ax.no_op("first"), ax.no_op("second")

    with ax.control_dependencies([first]), ax.control_dependencies([second]):
        waiting = ax.constant(1)

    assert waiting.op.control_inputs == [first, second]


def test_a_node_waits_for_nothing_that_its_input_waits_for_already(graph):
    first, outside = ax.no_op("first"), ax.constant(1)

    with ax.control_dependencies([first]):
        inside = ax.constant(1)
        by_input, by_itself = ax.negative(inside), ax.negative(outside)

    assert by_input.op.control_inputs == []
    assert by_itself.op.control_inputs == [first]


def test_cleared_scopes_are_waited_for_neither_by_a_node_nor_instead_of_it(graph):
    first, second = ax.no_op("first"), ax.no_op("second")

    with ax.control_dependencies([first]):
        with ax.control_dependencies(None), ax.control_dependencies([second]):
            free = ax.constant(1)
        user = ax.negative(free)

    assert free.op.control_inputs == [second]
    assert user.op.control_inputs == [first]
