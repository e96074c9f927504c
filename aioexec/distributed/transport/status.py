"""Errors between processes: the parts of an OpError that are sent, and the OpError that the receiver makes of them.

The error of a node contains `[[{{node NAME}}]]`, by which TensorFlow's clients find the operation, and ours. A *derived* error
is one that another part of the step has caused: it is marked, and the root error is raised instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aioexec.errors import OpError, UnknownError, UnknownNameError, exception_type_from_error_code

DERIVED: Final = "type.googleapis.com/tensorflow.DerivedStatus"
SILENT: Final = "type.googleapis.com/aioexec.PeerSilent"
"""Payload of an error: the peer was unresponsive for the whole timeout, and a retry would take as long again."""
POSSIBLY_RESTARTED: Final = "type.googleapis.com/tensorflow.distributed_runtime.WorkerPossiblyRestarted"

_FROM_TASK: Final = "From /job:"
"""The prefix of a master's message for an error of a task's part; the rest of the line is the task and a colon."""
PLACED: Final = re.compile(
    r"(?P<type>\w+) '(?P<node>[^']+)' on (?P<device>[^\s:]+(?::[^\s:]+)*): (?P<text>.*)", re.DOTALL
)
"""The prefix of an operation's error message: the device on which it ran."""

_NODE = re.compile(r"\{\{node ([^{}\s]+)\}\}")


def with_payload(error: OpError, type_url: str, value: bytes = b"") -> OpError:
    """Add a payload to an error, and return it."""
    error.payloads = {**error.payloads, type_url: value}
    return error


def is_derived(error: BaseException) -> bool:
    """Whether an error was caused by another one in the step."""
    return isinstance(error, OpError) and DERIVED in error.payloads


def message_of(error: OpError) -> str:
    """The message with the node in TensorFlow's form, without the line that created it, which the client adds."""
    message = error.message.removesuffix(f"; created at {error.created_at}")
    if error.node is None or _NODE.search(message):
        return message
    return f"{message}\n\t [[{{{{node {error.node}}}}}]]"


def reported_by_master(error: OpError) -> str:
    """The message of a step's error for its client: if an operation failed, prefixed with the task."""
    message = message_of(error)
    placed = PLACED.fullmatch(message)
    task, is_device, _ = ("", "", "") if placed is None else placed["device"].partition("/device:")
    return f"From {task}:\n{message}" if task and is_device else message


def without_task(message: str) -> str:
    """The message of `reported_by_master` without the line that names the task."""
    begin = message.find(_FROM_TASK)
    end = message.find(":\n", begin)
    if begin < 0 or end < 0 or "\n" in message[begin:end]:
        return message
    return message[:begin] + message[end + 2 :]


def node_of(message: str) -> str | None:
    """The node that a message names."""
    match = _NODE.search(message)
    return None if match is None else match[1]


def error_from(code: int, message: str, payloads: Mapping[str, bytes] | None = None) -> OpError:
    """The error of a canonical code."""
    try:
        kind = exception_type_from_error_code(code)
    except UnknownNameError:
        kind = UnknownError
    error = kind(None, None, message)
    error.node = node_of(message)
    if payloads:
        error.payloads = dict(payloads)
    return error
