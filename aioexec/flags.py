"""Command-line flags under the names of `tf.flags`: those of absl-py, which the extra `flags` installs.

absl is imported when the first name is used. Two differences from absl are those of TensorFlow 1.x: reading a flag parses the
command line if that has not happened, and DEFINE_string, _integer, _float, _boolean and _bool take the old argument names
`flag_name`, `default_value` and `docstring`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

_OLD_ARGUMENTS: Final = {"flag_name": "name", "default_value": "default", "docstring": "help"}
_WITH_OLD_ARGUMENTS: Final = (
    "DEFINE_string",
    "DEFINE_integer",
    "DEFINE_float",
    "DEFINE_boolean",
    "DEFINE_bool",
)


class _Flags:
    """absl's FLAGS; reading the value of a flag parses `sys.argv` first, if nothing has been parsed."""

    def __init__(self, values: Any) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        if name in values and not values.is_parsed():
            values(sys.argv)
        return getattr(values, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._values, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._values, name)

    def __dir__(self) -> list[str]:
        return list(dir(self._values))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, flag: Any) -> None:
        self._values[name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        return str(self._values)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._values(*args, **kwargs)


def _taking_old_arguments(define: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(define)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return define(*args, **{_OLD_ARGUMENTS.get(name, name): value for name, value in kwargs.items()})

    return wrapper


def __getattr__(name: str) -> Any:
    """Return a name of absl's flags, imported now.

    Raises:
        ImportError: absl-py is not installed.
        AttributeError: absl has no such name.
    """
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        absl_flags = importlib.import_module("absl.flags")
    except ImportError as error:
        raise ImportError(
            "aioexec.flags needs absl-py; install it with: pip install aioexec[flags]"
        ) from error
    absl_flags.disclaim_key_flags()  # the flags that a program defines through this module are its own
    found = getattr(absl_flags, name)
    if name == "FLAGS":
        found = _Flags(found)
    elif name in _WITH_OLD_ARGUMENTS:
        found = _taking_old_arguments(found)
    globals()[name] = found
    return found
