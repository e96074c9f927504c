"""Logs on stderr: lines of JSON, written by a thread."""

import json
import logging
import sys

import pytest

from aioexec.serving.telemetry.logs import ACCESS_LOGGER, JsonFormatter, logs_on_stderr


def test_a_log_line_is_one_line_with_the_traceback():
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.LogRecord("name", logging.ERROR, "file", 1, "message\n%s", ("x",), sys.exc_info())

    text = JsonFormatter().format(record)

    assert "\n" not in text
    assert json.loads(text)["message"] == "message\nx"
    assert "ValueError: a\nb" in json.loads(text)["exception"]


@pytest.fixture
def levels():
    """Restore the levels of loggers that a command sets."""
    loggers = [logging.getLogger(name) for name in ("", ACCESS_LOGGER)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("with_requests", [False, True])
def test_a_thread_writes_the_logs_and_requests_only_if_wanted(levels, capsys, with_requests):
    with logs_on_stderr(as_json=True, with_requests=with_requests):
        logging.getLogger("aioexec.serving").info("loaded %d", 3)
        logging.getLogger(ACCESS_LOGGER).info("GET", extra={"status": 200})

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["loaded 3", "GET"][: 1 + with_requests]
