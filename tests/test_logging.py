"""`ax.logging`: TensorFlow's names over the standard library's logging."""

from __future__ import annotations

import logging as standard

import pytest

import aioexec
from aioexec import logging


@pytest.fixture(autouse=True)
def own_logger():
    """Give the package's logger a level and handlers of its own for the test."""
    logger = standard.getLogger("aioexec")
    level, handlers = logger.level, list(logger.handlers)
    logger.handlers.clear()
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_messages_have_levels_arguments_and_the_place_of_the_call(caplog):
    logging.set_verbosity(logging.DEBUG)

    logging.debug("a %d", 1)
    logging.info("b")
    logging.warn("c")
    logging.warning("d %s", "e")
    logging.error("f")
    logging.fatal("g")
    logging.log(logging.INFO, "h %s", "i")
    logging.vlog(logging.WARN, "j")
    logging.TaskLevelStatusMessage("k")
    logging.log_if(logging.INFO, "l %d", True, 2)
    logging.log_if(logging.INFO, "never", False)

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "a 1"), ("INFO", "b"), ("WARNING", "c"), ("WARNING", "d e"), ("ERROR", "f"), ("CRITICAL", "g"),
        ("INFO", "h i"), ("WARNING", "j"), ("ERROR", "k"), ("INFO", "l 2"),
    ]  # fmt: skip
    assert {record.filename for record in caplog.records} == {"test_logging.py"}


def test_the_verbosity_drops_messages_of_the_whole_package(caplog):
    logging.set_verbosity(logging.ERROR)

    logging.warning("dropped")
    standard.getLogger("aioexec.train.hooks").warning("dropped")
    standard.getLogger("aioexec.train.hooks").error("logged")

    assert logging.get_verbosity() == logging.ERROR
    assert [record.getMessage() for record in caplog.records] == ["logged"]


def test_some_calls_of_a_line_are_logged(caplog):
    logging.set_verbosity(logging.INFO)

    for number in range(7):
        logging.log_every_n(logging.INFO, "every %d", 3, number)
        logging.log_first_n(logging.INFO, "first %d", 2, number)

    assert [record.getMessage() for record in caplog.records] == [
        "every 0", "first 0", "first 1", "every 3", "every 6",
    ]  # fmt: skip


def test_without_handlers_messages_go_to_standard_error(capsys, monkeypatch):
    monkeypatch.setattr(standard.getLogger(), "handlers", [])  # pytest's are added after fixtures
    logging.set_verbosity(logging.INFO)

    logging.info("loss %.1f", 0.5)
    logging.flush()

    assert capsys.readouterr().err == "INFO:aioexec:loss 0.5\n"


def test_a_message_that_cannot_be_formatted_is_reported(capsys, monkeypatch):
    monkeypatch.setattr(standard.getLogger(), "handlers", [])
    logging.error("%d", "text")

    assert "--- Logging error ---" in capsys.readouterr().err


def test_the_handlers_of_a_program_have_the_messages_alone(capsys, caplog):
    logging.set_verbosity(logging.INFO)

    logging.info("once")

    assert ([record.getMessage() for record in caplog.records], capsys.readouterr().err) == (["once"], "")


def test_the_logger_is_that_of_the_package():
    assert aioexec.get_logger() is standard.getLogger("aioexec")
