"""Cancellation managers: each callback is called once."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aioexec.execution.cancellation import CancellationManager, StepCancellation


def registered(manager: CancellationManager, called: list[str], name: str) -> int:
    token = manager.get_cancellation_token()
    assert manager.register_callback(token, lambda: called.append(name))
    return token


@pytest.mark.behaviour(91)
def test_callbacks_run_once_in_the_order_of_registration():
    manager = CancellationManager()
    called: list[str] = []
    for name in ("a", "b", "c"):
        registered(manager, called, name)

    manager.start_cancel()
    manager.start_cancel()

    assert called == ["a", "b", "c"]
    assert manager.is_cancelled
    assert not manager.is_cancelling


@pytest.mark.behaviour(91)
def test_after_a_cancellation_no_callback_is_taken_any_more():
    manager = CancellationManager()
    called: list[str] = []
    manager.start_cancel()

    taken = manager.register_callback(manager.get_cancellation_token(), lambda: called.append("late"))

    assert not taken
    assert called == []


@pytest.mark.behaviour(91)
def test_what_was_deregistered_before_is_not_called():
    manager = CancellationManager()
    called: list[str] = []
    tokens = [registered(manager, called, name) for name in ("a", "b", "c")]

    assert manager.deregister_callback(tokens[0])
    assert manager.try_deregister_callback(tokens[1])
    manager.start_cancel()

    assert called == ["c"]


@pytest.mark.behaviour(91)
def test_deregistering_during_a_cancellation_leaves_the_callback_called():
    manager = CancellationManager()
    called: list[str] = []
    answers: list[object] = []
    asking = manager.get_cancellation_token()

    def ask() -> None:
        called.append("asking")
        answers.append((manager.deregister_callback(other), list(called)))

    manager.register_callback(asking, ask)
    other = registered(manager, called, "other")

    manager.start_cancel()

    assert answers == [(False, ["asking", "other"])]
    assert called == ["asking", "other"]


def test_a_callback_may_deregister_itself():
    manager = CancellationManager()
    answers: list[object] = []
    token = manager.get_cancellation_token()
    manager.register_callback(token, lambda: answers.append(manager.deregister_callback(token)))

    manager.start_cancel()

    assert answers == [False]


def test_trying_to_deregister_during_a_cancellation_calls_no_callback():
    manager = CancellationManager()
    called: list[str] = []
    answers: list[object] = []
    token = manager.get_cancellation_token()
    manager.register_callback(
        token, lambda: answers.append((manager.try_deregister_callback(other), list(called)))
    )
    other = registered(manager, called, "other")

    manager.start_cancel()

    assert answers == [(False, [])]
    assert called == ["other"]


@pytest.mark.behaviour(91)
def test_deregistering_after_a_cancellation_says_that_it_was_too_late():
    manager = CancellationManager()
    called: list[str] = []
    token = registered(manager, called, "a")
    manager.start_cancel()

    assert not manager.deregister_callback(token)
    assert not manager.try_deregister_callback(token)
    assert called == ["a"]


def test_during_a_cancellation_the_manager_says_so_and_takes_nothing():
    manager = CancellationManager()
    seen: list[object] = []

    def look() -> None:
        late = manager.register_callback(manager.get_cancellation_token(), lambda: seen.append("late"))
        seen.append((manager.is_cancelling, manager.is_cancelled, late))
        manager.start_cancel()  # under way already

    manager.register_callback(manager.get_cancellation_token(), look)
    manager.start_cancel()

    assert seen == [(True, False, False)]


def test_an_error_of_one_callback_does_not_prevent_calls_of_the_others():
    manager = CancellationManager()
    called: list[str] = []
    child = CancellationManager(manager)

    def fail() -> None:
        raise ZeroDivisionError

    manager.register_callback(manager.get_cancellation_token(), fail)
    registered(manager, called, "second")
    registered(child, called, "child")

    with pytest.raises(ZeroDivisionError):
        manager.start_cancel()

    assert called == ["second", "child"]
    assert manager.is_cancelled


def test_children_are_cancelled_with_their_parent_and_not_the_other_way_round():
    parent = CancellationManager()
    children = [CancellationManager(parent) for _ in range(2)]
    called: list[str] = []
    for k, child in enumerate(children):
        registered(child, called, f"child {k}")
    registered(parent, called, "parent")

    children[0].start_cancel()
    assert called == ["child 0"]
    assert not parent.is_cancelled
    parent.start_cancel()

    assert called == ["child 0", "parent", "child 1"]


def test_a_child_of_a_cancelled_parent_is_born_cancelled():
    parent = CancellationManager()
    parent.start_cancel()

    child = CancellationManager(parent)

    assert child.is_cancelled
    assert not child.register_callback(child.get_cancellation_token(), lambda: None)


def test_a_detached_child_is_not_told_and_not_kept():
    parent = CancellationManager()
    child = CancellationManager(parent)

    child.detach()
    child.detach()
    parent.start_cancel()

    assert not child.is_cancelled


@pytest.mark.behaviour(56)
def test_a_step_has_one_manager_and_another_step_another():
    session = CancellationManager()
    steps = StepCancellation(session)

    first, second = steps.find_or_create(1), steps.find_or_create(2)

    assert steps.find_or_create(1) is first
    assert second is not first
    first.start_cancel()
    assert not second.is_cancelled
    session.start_cancel()
    assert second.is_cancelled


def test_a_step_that_is_over_is_forgotten():
    session = CancellationManager()
    steps = StepCancellation(session)
    first = steps.find_or_create(1)

    steps.forget(1)
    steps.forget(1)
    session.start_cancel()

    assert not first.is_cancelled
    assert steps.find_or_create(1) is not first


class AnyOrder(RuleBasedStateMachine):
    """A tree of managers under any order of calls."""

    @initialize()
    def start(self) -> None:
        self.managers = [CancellationManager()]
        self.owed: list[
            tuple[CancellationManager, int]
        ] = []  # callbacks registered, and not deregistered in time
        self.called: list[tuple[CancellationManager, int]] = []

    @rule(data=st.data())
    def add_child(self, data: st.DataObject) -> None:
        self.managers.append(CancellationManager(data.draw(st.sampled_from(self.managers))))

    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        manager = data.draw(st.sampled_from(self.managers))
        token = manager.get_cancellation_token()
        taken = manager.register_callback(token, lambda: self.called.append((manager, token)))
        assert taken is not manager.is_cancelled
        if taken:
            self.owed.append((manager, token))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.managers)).start_cancel()

    @precondition(lambda self: self.owed)
    @rule(data=st.data())
    def deregister(self, data: st.DataObject) -> None:
        manager, token = data.draw(st.sampled_from(self.owed))
        in_time = manager.deregister_callback(token)
        assert in_time is not manager.is_cancelled
        if in_time:
            self.owed.remove((manager, token))

    @invariant()
    def who_is_owed_a_call_gets_it_once_when_its_manager_is_cancelled(self) -> None:
        for manager in getattr(self, "managers", ()):
            manager.check_invariants()
        if hasattr(self, "owed"):
            due = [(manager, token) for manager, token in self.owed if manager.is_cancelled]
            assert sorted(map(repr, self.called)) == sorted(map(repr, due))


TestAnyOrder = pytest.mark.slow(AnyOrder.TestCase)
