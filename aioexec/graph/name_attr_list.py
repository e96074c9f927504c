"""NameAttrList: the value of an attribute of kind "func"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class NameAttrList:
    """The name of a function and the attributes of its call."""

    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
