"""Device names: "/job:worker/replica:0/task:1/device:CPU:0", whole or in part."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from aioexec.errors import GraphValueError

_FIELD = re.compile(r"^(job|replica|task|device):(.*)$")
_WORD = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device name in fields; None is a field that is left open."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a full or partial name.

        Raises:
            GraphValueError: malformed.
        """
        return _parse(spec)

    def to_string(self) -> str:
        text = ""
        if self.job is not None:
            text += f"/job:{self.job}"
        if self.replica is not None:
            text += f"/replica:{self.replica}"
        if self.task is not None:
            text += f"/task:{self.task}"
        if self.device_type is not None:
            text += f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}"
        return text

    def merged_over(self, other: DeviceSpec) -> DeviceSpec:
        """This spec, with the fields it leaves open taken from `other`."""
        fields = {
            name: getattr(other, name)
            for name in ("job", "replica", "task", "device_type", "device_index")
            if getattr(self, name) is None
        }
        if self.device_type is not None and self.device_type != other.device_type:
            fields.pop("device_index", None)
        return replace(self, **fields)


@lru_cache(maxsize=1024)
def _parse(spec: str) -> DeviceSpec:
    result = DeviceSpec()
    for part in filter(None, spec.split("/")):
        match = _FIELD.match(part)
        if match is None:
            kind, _, index = part.partition(":")
            if not _WORD.match(kind):
                raise GraphValueError(f"Malformed device specification {spec!r}: part {part!r}")
            result = _with_device(spec, result, kind.upper(), index)
        elif match[1] == "job":
            if not _WORD.match(match[2]):
                raise GraphValueError(f"Malformed device specification {spec!r}: job {match[2]!r}")
            result = replace(result, job=match[2])
        elif match[1] == "device":
            kind, _, index = match[2].partition(":")
            result = _with_device(spec, result, kind, index)
        elif match[2] == "*":
            continue
        else:
            number = _index(spec, match[2])
            result = (
                replace(result, replica=number) if match[1] == "replica" else replace(result, task=number)
            )
    return result


def _with_device(spec: str, result: DeviceSpec, kind: str, index: str) -> DeviceSpec:
    if kind != "*" and not _WORD.match(kind):
        raise GraphValueError(f"Malformed device specification {spec!r}: device type {kind!r}")
    kind = kind.upper() if kind.lower() in ("cpu", "gpu") else kind
    return replace(
        result,
        device_type=None if kind == "*" else kind,
        device_index=None if index in ("", "*") else _index(spec, index),
    )


def _index(spec: str, text: str) -> int:
    if not text.isdigit():
        raise GraphValueError(f"Malformed device specification {spec!r}: index {text!r} is not a number")
    return int(text)


@lru_cache(maxsize=1024)
def merge_device(spec: str | None, over: str) -> str:
    """`over`, with the fields it leaves open taken from `spec`, as a canonical name."""
    return _parse(over).merged_over(_parse(spec or "")).to_string()
