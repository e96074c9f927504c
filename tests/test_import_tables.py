"""The tables of lazily imported names agree with an import of everything, and laziness changes nothing else."""

import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import aioexec
from aioexec.graph import registry
from aioexec.names.op_modules import OP_MODULES
from tests import import_tables

ROOT = Path(__file__).parents[1]


def output_of(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    return result.stdout


def test_the_tables_of_names_are_what_the_modules_declare():
    written = {path: path.read_text(encoding="utf-8") for path in import_tables.NAMES.glob("*.py")}

    assert written == import_tables.name_tables()


@pytest.mark.slow
def test_the_table_of_ops_is_what_importing_all_modules_registers():
    made = output_of(
        "from tests import import_tables as made; print(made.ops_text(made.op_modules()), end='')"
    )

    assert import_tables.OPS.read_text(encoding="utf-8") == made


def test_every_public_name_can_be_had():
    missing = [
        f"{module}.{name}"
        for module in import_tables.public()
        for name in __import__(module, fromlist=["x"]).__all__
        if not hasattr(sys.modules[module], name)
    ]

    assert missing == []
    assert (
        {"matmul", "nn", "gradients", "range", "ConfigProto"}
        <= {*import_module("aioexec").__all__}
        <= {*dir(aioexec)}
    )


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'aioexec.nn' has no attribute 'reluu'"):
        aioexec.nn.reluu  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'matmull' from 'aioexec'"):
        from aioexec import matmull  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.slow
def test_a_function_keeps_the_name_it_shares_with_a_package():
    program = (
        "import aioexec; import aioexec.gradients.backprop; from aioexec import gradients; "
        "print(gradients.__module__, aioexec.gradients is gradients)"
    )

    assert output_of(program) == "aioexec.gradients.backprop True\n"


@pytest.mark.slow
def test_star_imports_have_all_names():
    program = "import sys; from aioexec import *; sys.stdout.write(f'{matmul.__name__} {nn.relu.__name__} {print.__module__}')"

    assert output_of(program) == "matmul relu aioexec.ops.strings.formats"


@pytest.mark.slow
def test_a_public_class_that_was_not_used_yet_is_unpickled():
    reference = pickle.dumps(aioexec.TensorShape([1, None]))

    program = f"import pickle; print(pickle.loads({reference!r}))"

    assert output_of(program) == f"{aioexec.TensorShape([1, None])}\n"


@pytest.mark.slow
def test_importing_registers_few_ops_and_asking_for_one_registers_it():
    program = (
        "import aioexec; from aioexec.graph import registry; rows = registry._registry.rows; "
        "print(len(rows) < 50, 'Cholesky' in rows, registry.is_registered('Cholesky'), 'Cholesky' in rows, "
        "registry.lookup('Cholesky').name, 'Cholesky' in rows)"
    )

    assert output_of(program) == "True False True False Cholesky True\n"


@pytest.mark.slow
def test_an_op_to_come_cannot_be_registered_by_another():
    program = (
        "import aioexec; from aioexec.graph import registry\n"
        "try: registry.register('Cholesky(x:T) -> (y:T) [T:type]', shape=None, kernel=None, gradient=None)\n"
        "except ValueError as error: print(error)"
    )

    assert output_of(program) == "op 'Cholesky' is registered already\n"


def test_what_the_wiring_adds_is_for_ops_there_are():
    assert set(registry._registry.completions) <= set(OP_MODULES)


def test_all_rows_are_told():
    assert set(OP_MODULES) <= {row.name for row in registry.registered()}
