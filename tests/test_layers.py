"""Imports point one way: every import under aioexec/ is compared with the table of layers.

Imports inside functions and under TYPE_CHECKING count too: a cycle hidden there is still a cycle.
"""

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import aioexec

ROOT = Path(aioexec.__file__).parent

# From the bottom up. A row is a list of chains: a package may import every lower row, and in its own row only
# what stands before it in its own chain.
ROWS: list[list[str]] = [
    [
        "text_cache",
        "descriptors",
        "name_tables < lazy_names",
        "data_classes < errors < plain_with < in_thread < dtypes < shapes",
    ],
    ["formats < files", "resources", "command_line"],
    ["observability"],
    ["graph"],
    ["ops < gradients", "devices < planning < execution"],
    ["layers < recurrent", "layers < keras", "distributions", "linear_operators", "data"],
    ["sessions"],
    ["distributed < train < saved_model"],
    ["feature_column < estimator"],
    ["batching < serving"],
    [
        "api_switches < logging < version < compat < names < flags < app < debugging < gfile < io < manip < nest < "
        "python_io < queue < raw_ops < resource_loader < sparse < spectral < "
        "sets < bitwise < distribute < graph_util < image < initializers < linalg < lookup < losses < math < metrics < "
        "nn < random < signal < strings < summary < contrib < tpu < gen_ops < python < client < test < examples < "
        "aioexec < demo < checkpoint_tools < inspection < porting < cli < completion",
        "blocking < test < aioexec < testing",
    ],
]

# The packages inside these packages, from the bottom up: each imports only itself and what stands before it.
ORDERS = {
    "ops": (
        "common < array < math < reduction < signal < random < linalg < control_flow < strings < convolution < pooling < "
        "normalization < image < state < containers < lookup < sparse < ragged < io < nn < training < functions < datasets"
    ),
    "distributed": "security < transport < client < cluster < worker < master < server",
}

MOST_MODULES = 25

# A heavy or optional library enters through one door.
DOORS = {
    "absl": "aioexec.flags or aioexec.app",
    "aiohttp": "aioexec.serving",
    "blockbuster": "aioexec.testing",
    "crc32c": "aioexec.formats.crc32c",
    "cuda": "aioexec.devices.cuda or aioexec.testing",
    "nvmath": "aioexec.devices.cuda",
    "grpc": "aioexec.distributed.transport.grpc",
    "llvmlite": "aioexec.devices.jit",
    "numba": "aioexec.devices.jit",
    "opentelemetry": "aioexec.serving.telemetry",
    "prometheus_client": "aioexec.serving.telemetry",
    "pytest": "aioexec.testing",
    "pytest_asyncio": "aioexec.testing",
    "ray": "aioexec.distributed.cluster.ray",
    "re2": "aioexec.ops.strings.regular_expressions",
    "rich": "aioexec.command_line or aioexec.demo or aioexec.inspection or aioexec.train.hooks.progress_hook",
    "shtab": "aioexec.completion",
    "tensorflow": "(nowhere)",
    "threadpoolctl": "(nowhere)",
    "uvloop": "aioexec.testing or aioexec.demo or aioexec.distributed.server.command or aioexec.serving.command",
}


@dataclass(frozen=True)
class Import:
    """One module that one line imports; a relative one begins with a dot."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer} line {self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = ("aioexec", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports_of(importer: str, path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = f"{'.' * node.level}{node.module or ''}"
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                yield Import(importer, whole if whole in modules() else module, node.lineno)
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield Import(importer, str(argument.value), node.lineno)


@cache
def all_imports() -> list[Import]:
    return [found for name, path in modules().items() for found in imports_of(name, path)]


def package_of(module: str) -> str:
    """Return the word under which a module stands in the table; the package itself is `aioexec`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "aioexec"


def chains() -> Iterator[tuple[int, list[str]]]:
    for row, texts in enumerate(ROWS):
        for text in texts:
            yield row, text.split(" < ")


def allowed(package: str) -> set[str]:
    """Return the packages that a package may import: itself, lower rows, what precedes it in its chain."""
    own_row = next(row for row, chain in chains() if package in chain)
    permitted = {package}
    for row, chain in chains():
        if row < own_row:
            permitted.update(chain)
        elif package in chain:
            permitted.update(chain[: chain.index(package)])
    return permitted


def test_every_package_has_a_place_in_the_table():
    table = {package for _, chain in chains() for package in chain}

    assert {package_of(name) for name in modules()} == table


def test_no_import_points_upwards_or_sideways():
    wrong = [
        str(found)
        for found in all_imports()
        if found.imported.split(".")[0] == "aioexec"
        and package_of(found.imported) not in allowed(package_of(found.importer))
    ]

    assert wrong == []


def part_of(package: str, module: str) -> str:
    """Return the package inside `package` that a module is in; "" elsewhere."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["aioexec", package] and len(parts) > 2 else ""


@pytest.mark.parametrize("package", ORDERS)
def test_every_inner_package_has_a_place_in_the_order(package):
    assert {part_of(package, name) for name in modules()} - {""} == set(ORDERS[package].split(" < "))


@pytest.mark.parametrize("package", ORDERS)
def test_inner_packages_import_only_earlier_ones(package):
    order = ["", *ORDERS[package].split(" < ")]
    wrong = [
        str(found)
        for found in all_imports()
        if part_of(package, found.importer)
        and order.index(part_of(package, found.imported)) > order.index(part_of(package, found.importer))
    ]

    assert wrong == []


@pytest.mark.parametrize(("own", "other"), [*itertools.permutations(["fast", "grpc", "memory"], 2)])
def test_transports_do_not_import_each_other(own, other):
    package = "aioexec.distributed.transport"
    wrong = [
        str(found)
        for found in all_imports()
        if found.importer.startswith(f"{package}.{own}") and found.imported.startswith(f"{package}.{other}")
    ]

    assert wrong == []


def test_no_package_has_more_than_25_modules():
    """Generated ones do not count, nor those that only import public names: TensorFlow has so many."""
    generated = {ROOT / "formats" / "protos", ROOT / "name_tables"}
    sizes = {
        folder: sum(
            "public_names(__name__)" not in path.read_text(encoding="utf-8") for path in folder.glob("*.py")
        )
        for folder in ROOT.rglob("*")
        if folder.is_dir() and folder not in generated
    }

    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def groups_that_import_each_other() -> set[frozenset[str]]:
    """Return the strongly connected components of more than one module."""
    direct: dict[str, set[str]] = {name: set() for name in modules()}
    for found in all_imports():
        direct[found.importer].update(
            ({found.imported} & direct.keys()) - {found.importer}
        )  # a name for itself
    reached: dict[str, set[str]] = {}
    for name in direct:
        waiting, seen = [name], set[str]()
        while waiting:
            fresh = direct[waiting.pop()] - seen
            seen |= fresh
            waiting += fresh
        reached[name] = seen
    return {
        frozenset(each for each in reached[name] if name in reached[each])
        for name in direct
        if name in reached[name]
    }


def test_no_modules_import_each_other():
    assert groups_that_import_each_other() == set()


@pytest.mark.parametrize("library", DOORS)
def test_a_library_enters_through_its_door(library):
    doors = DOORS[library].split(" or ")

    wrong = [
        str(found)
        for found in all_imports()
        if found.imported.split(".")[0] == library
        and not any(f"{found.importer}.".startswith(f"{door}.") for door in doors)
    ]

    assert wrong == []


def test_imports_are_absolute():
    assert [str(found) for found in all_imports() if found.imported.startswith(".")] == []


def test_an_upward_import_would_be_found(tmp_path):
    source = "def late():\n    from aioexec.sessions import session\n    import aioexec.graph\n"
    path = tmp_path / "probe.py"
    path.write_text(source, encoding="utf-8")

    found = {package_of(each.imported) for each in imports_of("aioexec.ops.probe", path)}

    assert found - allowed("ops") == {"sessions"}
