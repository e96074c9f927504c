"""WarmStartSettings: how an estimator starts from a checkpoint of another model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.train.checkpoints.warm_starting import VocabInfo


class _WarmStartSettings(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Mapping[str, VocabInfo]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_WarmStartSettings):
    """The arguments of `train.warm_start`.

    Raises:
        GraphValueError: no checkpoint is given.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> Self:
        if not ckpt_to_initialize_from:
            raise GraphValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            dict(var_name_to_vocab_info or {}),
            dict(var_name_to_prev_var_name or {}),
        )


def settings_of(warm_start_from: Any) -> WarmStartSettings | None:
    """The settings that a constructor's `warm_start_from` stands for: settings, or the path of a checkpoint, or None.

    Raises:
        GraphTypeError: another value.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, str | bytes):
        return WarmStartSettings(ckpt_to_initialize_from=_text(warm_start_from))
    raise GraphTypeError(
        "warm_start_from must be a string or a WarmStartSettings, instead got "
        f"{type(warm_start_from).__name__}"
    )


def _text(path: str | bytes) -> str:
    return path if isinstance(path, str) else path.decode()
