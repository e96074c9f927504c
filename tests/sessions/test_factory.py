"""Session factories: exactly one accepts the options of a session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from aioexec.errors import InternalError, NotFoundError, UnimplementedError
from aioexec.formats.protos import ConfigProto
from aioexec.sessions import factory
from aioexec.sessions.factory import SessionFactory
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.runtime import SessionRuntime


class PrefixFactory(SessionFactory):
    """Accepts targets with one prefix; records the containers it was asked to reset."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith(self.prefix)

    def new_session(self, options: SessionOptions) -> SessionRuntime:
        return SessionRuntime(options)


class ResettableFactory(PrefixFactory):
    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        self.dropped: list[str] = []

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        self.dropped.extend(containers)


@pytest.fixture
def added() -> Iterator[Any]:
    """Registers factories for one test."""
    names: list[str] = []

    def add(name: str, made: SessionFactory) -> None:
        factory.register(name, made)
        names.append(name)

    yield add
    for name in names:
        factory.deregister(name)


@pytest.mark.behaviour(1)
def test_a_target_that_no_factory_accepts_is_not_found(added: Any):
    added("TEST_A", PrefixFactory("a://"))

    with pytest.raises(NotFoundError) as raised:
        factory.get_factory(SessionOptions("z://nowhere"))

    assert "No session factory registered for the given session options" in str(raised.value)
    assert 'target: "z://nowhere"' in str(raised.value)
    assert "TEST_A" in str(raised.value)


@pytest.mark.behaviour(2)
def test_a_target_that_two_accept_is_an_internal_error_that_names_both(added: Any):
    added("TEST_A", PrefixFactory("a://"))
    added("TEST_AA", PrefixFactory("a://a"))
    config = ConfigProto(allow_soft_placement=True)

    with pytest.raises(InternalError) as raised:
        factory.get_factory(SessionOptions.from_config("a://a", config))

    assert "Multiple session factories registered for the given session options" in str(raised.value)
    assert "allow_soft_placement: true" in str(raised.value)
    assert "Candidate factories are {TEST_A, TEST_AA}" in str(raised.value)


@pytest.mark.behaviour(3)
def test_a_factory_is_chosen_by_what_it_accepts(added: Any):
    a, b = PrefixFactory("a://"), PrefixFactory("b://")
    added("TEST_A", a)
    added("TEST_B", b)

    assert factory.get_factory(SessionOptions("a://x")) is a
    assert factory.get_factory(SessionOptions("b://x/y?z")) is b
    assert factory.new_session(SessionOptions("b://x")).options.target == "b://x"


def test_a_second_factory_of_one_type_is_logged_as_an_error_and_ignored(
    added: Any, caplog: pytest.LogCaptureFixture
):
    first = PrefixFactory("a://")
    added("TEST_A", first)

    with caplog.at_level(logging.ERROR):
        factory.register("TEST_A", PrefixFactory("b://"))

    assert "Two session factories are being registered under TEST_A" in caplog.text
    assert factory.get_factory(SessionOptions("a://")) is first
    with pytest.raises(NotFoundError):
        factory.get_factory(SessionOptions("b://"))


async def test_reset_goes_to_the_factory_and_is_unimplemented_unless_it_says_otherwise(added: Any):
    resettable = ResettableFactory("b://")
    added("TEST_A", PrefixFactory("a://"))
    added("TEST_B", resettable)

    await factory.reset(SessionOptions("b://"), ["one", "two"])

    assert resettable.dropped == ["one", "two"]
    with pytest.raises(UnimplementedError, match=r"Reset\(\)"):
        await factory.reset(SessionOptions("a://"), [])
