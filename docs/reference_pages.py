"""A Sphinx extension that writes the reference: a page for each public module, from docstrings.

An object has its description where its shortest public name is; other modules that offer it link there. Docstrings are Markdown
in Google's style: what reStructuredText reads otherwise (indented code, asterisks) is converted before Sphinx reads them.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

ELSEWHERE = ("aioexec.serving", "aioexec.testing")
"""Public modules that are no attribute of the package: they are imported by those who use them."""

MIRRORS = re.compile(r"aioexec\.(compat|raw_ops|blocking\.asynchronous)\b|\.python\b")
"""Modules that repeat others under names of TensorFlow's."""


def public_modules() -> dict[str, ModuleType]:
    """The public modules by name, those with the shortest names first; each once."""
    found: dict[str, ModuleType] = {}
    waiting = [("aioexec", importlib.import_module("aioexec"))]
    waiting += [(name, importlib.import_module(name)) for name in ELSEWHERE if importlib.util.find_spec(name)]
    while waiting:
        name, module = waiting.pop(0)
        if MIRRORS.search(name) or any(module is other for other in found.values()):
            continue
        found[name] = module
        for member in getattr(module, "__all__", []):
            value = getattr(module, member)
            if isinstance(value, ModuleType):
                waiting.append((f"{name}.{member}", value))
    return found


def public_members(module: ModuleType) -> dict[str, Any]:
    """The public names of a module, without modules: those it declares, else constants and what its package defines."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        members = {name: getattr(module, name) for name in declared}
    else:
        members = {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (name.isupper() or str(getattr(value, "__module__", "")).startswith(module.__name__))
        }
    return {name: value for name, value in sorted(members.items()) if not isinstance(value, ModuleType)}


def pages() -> Iterator[tuple[str, str]]:
    """The reference's pages: (module, text in reStructuredText)."""
    homes: dict[int, str] = {}
    for name, module in public_modules().items():
        yield name, _page(name, module, homes)


def _page(name: str, module: ModuleType, homes: dict[int, str]) -> str:
    shown = name.replace("aioexec", "ax", 1)
    lines = [shown, "=" * len(shown), "", *_summary(module), ""]
    aliases, values = [], []
    for member, value in public_members(module).items():
        path = f"{name}.{member}"
        if not (inspect.isclass(value) or inspect.isroutine(value)) or not _is_ours(value):
            values.append(member)
        elif id(value) in homes:
            aliases.append((member, homes[id(value)]))
        else:
            homes[id(value)] = path
            lines += [*_description(path, value), ""]
    if values:
        lines += ["Values: " + ", ".join(f"``{value}``" for value in values), ""]
    if aliases:
        lines += ["Other names", "-----------", ""]
        lines += [
            f"- ``{alias}``: :py:obj:`{home.replace('aioexec', 'ax', 1)} <{home}>`" for alias, home in aliases
        ]
    return "\n".join(lines) + "\n"


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("aioexec")


def _summary(module: ModuleType) -> list[str]:
    return markdown_to_rst((module.__doc__ or "").splitlines()[:1])


def _description(path: str, value: Any) -> list[str]:
    if inspect.isclass(value) and hasattr(value, "DESCRIPTOR"):
        return [f".. py:class:: {path}", "", "   A protocol buffer message; its fields are TensorFlow's."]
    if inspect.isclass(value):
        options = "" if issubclass(value, BaseException) else "   :members:\n"
        return [f".. autoclass:: {path}\n{options}"]
    return [f".. autofunction:: {path}"]


_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields|Note|Example|Examples):$")
_LITERAL = re.compile(r"(`[^`]*`)")


def markdown_to_rst(lines: list[str]) -> list[str]:
    """Convert a docstring's Markdown: indented blocks become code, asterisks and underscores text; sections stay."""
    converted: list[str] = []
    in_section = in_code = False
    for index, line in enumerate(lines):
        indented = line.startswith("    ")
        if line.strip() and not indented:
            in_section, in_code = bool(_SECTION.match(line)), False
        elif indented and not in_section and not in_code:
            if index and lines[index - 1].strip():
                converted.append("")
            converted += [".. code-block:: none", ""]
            in_code = True
        converted.append(line if in_code else _escaped(line))
        if (
            in_code
            and index + 1 < len(lines)
            and lines[index + 1].strip()
            and not lines[index + 1].startswith("    ")
        ):
            converted.append("")
    return converted


def _escaped(line: str) -> str:
    parts = _LITERAL.split(line)
    for index, part in enumerate(parts):
        if part.startswith("`") and part.endswith("`") and len(part) > 1:
            parts[index] = f"`{part}`"
        else:
            parts[index] = re.sub(r"(?<!^)([*|]|_(?=\W|$))", r"\\\1", part)
    return "".join(parts)


def _convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = markdown_to_rst(lines)


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "modules"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _convert, priority=400)  # before napoleon's
    return {"parallel_read_safe": True, "parallel_write_safe": True}
