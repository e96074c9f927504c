"""Device names, full or partial: "/job:worker/replica:0/task:1/device:CPU:0".

A `DeviceName` is a parsed, immutable name, cached by its text; placement and the device scopes use it. `DeviceSpec` is
TensorFlow's mutable class for the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.text_cache import cached_by_text

_PART: Final = re.compile(r"^(job|replica|task|device):(.*)$")
_WORD: Final = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")
_SHORT: Final = ("CPU", "GPU", "TPU")  # types that are recognized without "device:"


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A parsed device name; a field that is None is unspecified."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

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

    def merged_over(self, other: DeviceName) -> DeviceName:
        """This name, its unspecified fields taken from `other`."""
        return DeviceName(
            other.job if self.job is None else self.job,
            other.replica if self.replica is None else self.replica,
            other.task if self.task is None else self.task,
            other.device_type if self.device_type is None else self.device_type,
            other.device_index if self.device_index is None else self.device_index,
        )

    def matches(self, other: DeviceName) -> bool:
        """Whether `other` satisfies this name: it is equal in each field specified here."""
        return (
            self.job in (None, other.job)
            and self.replica in (None, other.replica)
            and self.task in (None, other.task)
            and self.device_type in (None, other.device_type)
            and self.device_index in (None, other.device_index)
        )

    def is_compatible(self, other: DeviceName) -> bool:
        """Whether a device can have both names: they are equal in each field that both specify."""
        return self.merged_over(other) == other.merged_over(self)

    @property
    def is_open(self) -> bool:
        """Whether no field is specified."""
        return self == _ANY

    def without_device(self) -> DeviceName:
        """The name of the process: without device type and index."""
        return replace(self, device_type=None, device_index=None)


_ANY: Final = DeviceName()


@cached_by_text(4096)
def parse(text: str) -> DeviceName:
    """Parse a full or partial device name.

    Raises:
        GraphValueError: malformed.
    """
    fields: dict[str, Any] = {}
    for part in filter(None, text.split("/")):
        match = _PART.match(part)
        if match is None:
            kind, _, index = part.partition(":")
            if kind.upper() not in _SHORT:
                raise _malformed(text, f"part {part!r}")
            _set_device(text, fields, kind, index)
        elif match[1] == "job":
            if not _WORD.match(match[2]):
                raise _malformed(text, f"job {match[2]!r}")
            fields["job"] = match[2]
        elif match[1] == "device":
            _set_device(text, fields, *match[2].partition(":")[::2])
        else:
            fields[match[1]] = _index(text, match[2])
    return DeviceName(**fields)


def _set_device(text: str, fields: dict[str, Any], kind: str, index: str) -> None:
    if "device_type" in fields:
        raise _malformed(text, "Multiple device types are not allowed")
    if kind != "*" and not _WORD.match(kind):
        raise _malformed(text, f"device type {kind!r}")
    if kind.upper() in _SHORT:
        kind = kind.upper()
    fields["device_type"] = None if kind == "*" else kind
    fields["device_index"] = _index(text, index or "*")


def _index(text: str, index: str) -> int | None:
    if index == "*":
        return None
    if not (index.isascii() and index.isdigit()):
        raise _malformed(text, f"index {index!r} is not a number")
    return int(index)


def _malformed(text: str, why: str) -> GraphValueError:
    return GraphValueError(f"Malformed device specification {text!r}: {why}")


@cached_by_text(4096)
def merge_names(name: str, over: str) -> str:
    """`over`, its unspecified fields taken from `name`, in canonical form."""
    return parse(over).merged_over(parse(name)).to_string()


class _Field:
    """A settable field of a DeviceSpec."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._field = name

    def __get__(self, spec: DeviceSpec, owner: type) -> Any:
        return getattr(spec._name, self._field)

    def __set__(self, spec: DeviceSpec, value: Any) -> None:
        spec._name = spec.replace(**{self._field: value})._name


class DeviceSpec:
    """A full or partial device name with settable fields; None is unspecified.

    `_name` is immutable and replaced by every change, so a name read from here earlier does not change.
    """

    __slots__ = ("_name",)

    job = _Field()
    replica = _Field()
    task = _Field()
    device_type = _Field()
    device_index = _Field()

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        self._name = DeviceName(
            None if job is None else str(job),
            None if replica is None else int(replica),
            None if task is None else int(task),
            _canonical_type(device_type),
            None if device_index is None else int(device_index),
        )

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a full or partial name.

        Raises:
            GraphValueError: malformed.
        """
        return cls().parse_from_string(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Set this object to the device named by `spec`, and return it.

        Raises:
            GraphValueError: malformed.
        """
        self._name = parse(spec)
        return self

    def to_string(self) -> str:
        return self._name.to_string()

    def merge_from(self, dev: DeviceSpec) -> None:
        """Set the fields that `dev` specifies."""
        self._name = dev._name.merged_over(self._name)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """A new spec: this one with the fields that `dev` specifies."""
        merged = DeviceSpec()
        merged._name = dev._name.merged_over(self._name)
        return merged

    def replace(self, **fields: Any) -> DeviceSpec:
        """A new spec with some fields replaced."""
        return DeviceSpec(**{name: getattr(self, name) for name in DeviceName.__slots__} | fields)

    def __eq__(self, other: object) -> bool:
        return self._name == other._name if isinstance(other, DeviceSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<DeviceSpec({', '.join(f'{name}={getattr(self, name)}' for name in DeviceName.__slots__)})>"


def _canonical_type(device_type: str | None) -> str | None:
    return device_type.upper() if device_type is not None and device_type.upper() in _SHORT else device_type


# TensorFlow's framework.device


def check_valid(spec: str) -> None:
    """Check that a device name is well formed.

    Raises:
        GraphValueError: malformed.
    """
    parse(spec)


def canonical_name(device: DeviceSpec | str | None) -> str:
    """A device name in canonical form; None yields ""."""
    return "" if device is None else parse(str(device)).to_string()


def merge_device(spec: DeviceSpec | str | None) -> Callable[[Any], DeviceSpec]:
    """A device function for `Graph.device`: `spec` completes the node's own device name, which has precedence."""
    outer = canonical_name(spec)
    return lambda node: DeviceSpec.from_string(merge_names(outer, node.device or ""))
