"""HParams: hyperparameters as attributes, overridden from text, JSON or a dict, each in its own type."""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aioexec.errors import GraphValueError

_ASSIGNMENT: Final = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"((?P<value>[^,\[]*)|\[(?P<values>[^\]]*)\])($|,\s*)"
)
"""One assignment of `parse_values`: name=value, name[index]=value or name=[value,value]."""


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Parse assignments such as `a=1,b[2]=x,c=[1.0,2.0]`.

    Args:
        type_map: the type of each name, int, float, str or bool; for a list that of its elements.
        ignore_unknown: leave out names without a type.

    Returns:
        A value, or a list of values, by name; for assignments to elements a dict from index to value.

    Raises:
        GraphValueError: the text is malformed, a name has no type or is assigned twice, or a value is not of the type.
    """
    found: dict[str, Any] = {}
    for match in _assignments(values):
        name, index = match["name"], match["index"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise GraphValueError(f"Unknown hyperparameter type for {name}")
        parse = _parser(name, type_map[name], values)
        held = found.get(name)
        is_element_of_dict = index is not None and isinstance(held, dict) and int(index) not in held
        if held is not None and not is_element_of_dict:
            raise GraphValueError(f"Multiple assignments to variable '{name}' in {values}")
        if match["values"] is not None:
            if index is not None:
                raise GraphValueError(f"Assignment of a list to a list index: {match[0]}")
            found[name] = [parse(each) for each in re.split("[ ,]", match["values"]) if each]
        elif index is not None:
            found.setdefault(name, {})[int(index)] = parse(match["value"])
        else:
            found[name] = parse(match["value"])
    return found


def _assignments(values: str) -> Iterator[re.Match[str]]:
    place = 0
    while place < len(values):
        match = _ASSIGNMENT.match(values, place)
        if match is None:
            raise GraphValueError(f"Malformed hyperparameter value: {values[place:]}")
        yield match
        place = match.end()


def _parser(name: str, kind: type, values: str) -> Callable[[str], Any]:
    """A function from the text of a value to the value."""

    def parse(text: str) -> Any:
        try:
            if kind is bool:
                known = {"true": True, "True": True, "false": False, "False": False}
                return known[text] if text in known else bool(int(text))
            return kind(text)
        except (TypeError, ValueError) as error:
            raise GraphValueError(
                f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}' in {values}"
            ) from error

    return parse


class HParams:
    """Hyperparameters: `HParams(rate=0.1, layers=[10, 20])` has the attributes `rate` and `layers`.

    The type of a parameter is that of its first value; later values are of that type, or become it without loss.

    Args:
        hparam_def: must be None: the proto of hyperparameters is not supported.
        model_structure: an object to keep.
        kwargs: the names and values.

    Raises:
        GraphValueError: a name is reserved, a list is empty, or there is a `hparam_def`.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise GraphValueError("HParams: hparam_def is not supported; use parse_json")
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def __getattr__(self, name: str) -> Any:
        """Reached only for names that are no parameters: declares to type checkers that any may be one."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a parameter.

        Raises:
            GraphValueError: the object has an attribute of that name, or the value is an empty list.
        """
        if getattr(self, name, None) is not None:
            raise GraphValueError(f"Hyperparameter name is reserved: {name}")
        is_list = isinstance(value, list | tuple)
        if is_list and not value:
            raise GraphValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
        self._hparam_types[name] = (type(value[0] if is_list else value), is_list)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Set a parameter that exists.

        Raises:
            GraphValueError: the value is of another type, or one of the two is a list.
            KeyError: there is no parameter of that name.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list):
            if not is_list:
                raise GraphValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_converted(name, kind, each) for each in value])
        elif isinstance(value, dict) and is_list:
            elements = list(getattr(self, name))
            for index, each in value.items():
                elements[index] = _converted(name, kind, each)
            setattr(self, name, elements)
        else:
            if is_list:
                raise GraphValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _converted(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Remove a parameter, if it exists."""
        if name in self._hparam_types:
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Set parameters from text such as `a=1,b[2]=x,c=[1.0,2.0]`, and return this object.

        Raises:
            GraphValueError: the text is malformed, a name unknown, or a value of another type.
        """
        kinds = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, kinds))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Set parameters from a dict, and return this object; see `set_hparam`."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Set parameters from a JSON object, and return this object; see `set_hparam`."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Return the parameters as a JSON object, without those that are functions."""
        plain = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """Return a parameter, or `default` if there is none of that name.

        Raises:
            GraphValueError: the default is of another type than the parameter.
        """
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            if isinstance(default, list) != is_list:
                raise GraphValueError(
                    f"The default of '{key}' must be a list if the parameter is: {default!r}"
                )
            for each in default if is_list else [default]:
                _converted(key, kind, each)
        return getattr(self, key)

    def set_model_structure(self, model_structure: Any) -> None:
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        return self._model_structure

    def __contains__(self, key: object) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


def _converted(name: str, kind: type, value: Any) -> Any:
    """A value in the type of a parameter.

    Raises:
        GraphValueError: it would lose something, or be another kind of thing: text, number or truth value.
    """
    if kind is type(None):
        return value
    is_refused = (
        (issubclass(kind, str | bytes) and not isinstance(value, str | bytes))
        or issubclass(kind, bool) != isinstance(value, bool)
        or (issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral))
        or (issubclass(kind, numbers.Number) and not isinstance(value, numbers.Number))
    )
    if is_refused:
        raise GraphValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
    return kind(value)
