"""Ports the files of a program together."""

from __future__ import annotations

import ast
import os.path
from collections.abc import Mapping

from aioexec.data_classes import dataclass
from aioexec.porting.coroutines import Site, decide
from aioexec.porting.findings import Finding
from aioexec.porting.import_paths import find_file
from aioexec.porting.imports import missing_names, rewrite_imports
from aioexec.porting.inference import Inference
from aioexec.porting.kinds import OwnModule
from aioexec.porting.module_level import rewrite_module_level
from aioexec.porting.other_libraries import OtherLibraries
from aioexec.porting.rewriting import Rewriter
from aioexec.porting.scopes import Module
from aioexec.porting.source import Source


@dataclass(frozen=True, slots=True)
class Ported:
    """A file after the port: its new text, and what is left to do by hand."""

    text: str
    findings: tuple[Finding, ...]


def port(texts: Mapping[str, str]) -> dict[str, Ported]:
    """Port the files of a program.

    Args:
        texts: the files by their paths; imports between them are followed.

    Returns:
        The ported files by the same paths. A file that is no Python 3 stays as it is, with a finding.
    """
    modules: dict[str, Module] = {}
    results: dict[str, Ported] = {}
    names = {os.path.normpath(path): path for path in texts}
    for path, given in names.items():
        try:
            modules[path] = Module(Source(path, texts[given]))
        except SyntaxError as error:
            results[given] = Ported(texts[given], (_not_parsed(path, error),))
    inference = Inference(modules)
    inference.run()
    sites = decide(inference)
    for path, module in modules.items():
        results[names[path]] = _port_module(module, inference, sites)
    return {path: results[path] for path in texts}


def _not_parsed(path: str, error: SyntaxError) -> Finding:
    hint = "a program for Python 2 must be converted first, by 2to3 for example"
    return Finding(path, error.lineno or 1, f"this is no Python 3 ({error.msg}); {hint}")


def _port_module(module: Module, inference: Inference, sites: list[Site]) -> Ported:
    source = module.source
    findings = missing_names(module, inference) + rewrite_imports(source, module, inference)
    rewriter = Rewriter(module, inference, [site for site in sites if site.module is module])
    rewriter.run()
    findings += rewriter.findings + OtherLibraries(module, inference).run()
    text = source.edits.apply()
    more: list[Finding] = []
    if rewriter.awaited:
        names = _names_imported(module, inference)
        text, more = rewrite_module_level(text, source.path, names or set(), is_imported=names is not None)
    ordered = sorted({*findings, *more}, key=lambda each: (each.line, each.message))
    return Ported(text, tuple(ordered))


def _names_imported(module: Module, inference: Inference) -> set[str] | None:
    """The names that other files import from a file, or read as attributes of it; None if none imports it."""
    names: set[str] = set()
    is_imported = False
    for other in inference.modules.values():
        for node in ast.walk(other.source.tree) if other is not module else ():
            if isinstance(node, ast.ImportFrom):
                path = find_file(inference.modules, other.source.path, node.module or "", node.level)
                if path == module.source.path:
                    is_imported = True
                    names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Name) and OwnModule(module) in inference.of(node, other):
                is_imported = True
            elif isinstance(node, ast.Attribute) and OwnModule(module) in inference.of(node.value, other):
                names.add(node.attr)
    return names if is_imported else None
