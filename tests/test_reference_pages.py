"""The reference of the documentation site: every public name is there, and docstrings become reStructuredText."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.names_table import ERRORS, LAYERS, LOSSES, METRICS, PUBLIC, TRAIN

pytest.importorskip("sphinx", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def reference():
    path = Path(__file__).parents[1] / "docs" / "reference_pages.py"
    spec = importlib.util.spec_from_file_location("reference_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_public_name_is_on_the_page_of_its_module(reference):
    pages = dict(reference.pages())
    names = {
        "aioexec": PUBLIC,
        "aioexec.errors": ERRORS,
        "aioexec.train": TRAIN,
        "aioexec.layers": LAYERS,
        "aioexec.losses": LOSSES,
        "aioexec.metrics": METRICS,
    }
    for module, expected in names.items():
        shown = set(re.findall(r"::.*\.(\w+)$|``(\w+)``", pages[module], flags=re.MULTILINE))
        assert [name for name in expected if (name, "") not in shown and ("", name) not in shown] == []


def test_an_object_has_one_description(reference):
    described = [
        path for _, page in reference.pages() for path in re.findall(r"^\.\. \w.*:: (.+)$", page, re.M)
    ]

    assert len(described) == len(set(described)) > 1500


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Multiply `a` by *b*.", "Multiply ``a`` by \\*b\\*."),
        ("Shown:\n    one = 1", "Shown:\n\n.. code-block:: none\n\n    one = 1"),
        ("Args:\n    rate: of |learning|.", "Args:\n    rate: of \\|learning\\|."),
        ("Uses `*args` and tail_ here.", "Uses ``*args`` and tail\\_ here."),
    ],
)
def test_markdown_becomes_restructured_text(reference, docstring, expected):
    assert "\n".join(reference.markdown_to_rst(docstring.splitlines())) == expected
