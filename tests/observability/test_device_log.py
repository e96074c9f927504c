"""Notices go to the listeners, and to the log where there is no listener."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NoReturn

import pytest

from aioexec.observability.device_log import add_listener, log_notice, log_to_listeners, remove_listener


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """A listener's messages; it listens until the test is over."""
    messages: list[str] = []
    add_listener(messages.append)
    yield messages
    remove_listener(messages.append)


def test_without_listeners_a_notice_goes_to_the_log(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    assert not log_to_listeners("no listener")
    log_notice("Device mapping: 100%")

    assert caplog.messages == ["Device mapping: 100%"]


def test_a_notice_is_seen_although_logging_is_not_set_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(logging.getLogger(log_notice.__module__), "propagate", False)

    log_notice("Device mapping")

    assert capsys.readouterr().err == "Device mapping\n"


def test_listeners_hear_a_notice_instead_of_the_log(heard: list[str], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    assert log_to_listeners("one")
    log_notice("two")

    assert heard == ["one", "two"]
    assert caplog.messages == []


def test_a_listener_is_added_and_removed_once(heard: list[str]):
    assert not add_listener(heard.append)
    assert log_to_listeners("one")
    assert heard == ["one"]

    assert remove_listener(heard.append)
    assert not remove_listener(heard.append)
    assert not log_to_listeners("two")


def test_the_other_listeners_are_notified_when_one_fails(heard: list[str], caplog: pytest.LogCaptureFixture):
    def fail(message: str) -> NoReturn:
        raise RuntimeError("deaf")

    add_listener(fail)
    remove_listener(heard.append)
    add_listener(heard.append)
    try:
        assert log_to_listeners("one")
    finally:
        remove_listener(fail)

    assert heard == ["one"]
    assert "deaf" in caplog.text
