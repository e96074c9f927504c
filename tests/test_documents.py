"""README and docs/ are correct: their code runs and prints the shown output, and the files and links they name exist."""

import asyncio
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aioexec.devices import registry
from aioexec.graph import registry as op_registry
from aioexec.graph.kernels import kernel_registry
from aioexec.sessions import factory
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from tests.distributed.grpc_process import grpc_runs as grpc_runs

REPOSITORY = Path(__file__).parents[1]
DOCUMENTS = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def name_of(document: Path) -> str:
    return str(document.relative_to(REPOSITORY))


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(document), flags=re.DOTALL | re.MULTILINE)


def programs() -> Iterator[Any]:
    """Each block of Python with its expected output, with the name of its document and its number there."""
    for document in DOCUMENTS:
        for i, code in enumerate(blocks(document, "python")):
            yield pytest.param(code, id=f"{name_of(document)}-{i}")


@pytest.fixture
def own_process(monkeypatch, tmp_path):
    """Undo registrations and remove files of a script, as if it had a process of its own."""
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    monkeypatch.setattr(factory, "_factories", dict(factory._factories))
    kernels = {op: list(kernels) for op, kernels in kernel_registry._kernels.items()}
    monkeypatch.setattr(kernel_registry, "_kernels", kernels)
    monkeypatch.chdir(tmp_path)
    yield
    op_registry._registry.rows.pop("Cube", None)  # from docs/contributing.md
    asyncio.run(FileWriterCache.clear())  # as at the end of a process


@pytest.mark.slow
@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize("code", list(programs()))
def test_the_code_runs_and_prints_what_its_comments_say(code, capsys):
    expected = re.findall(r"^ *print\(.*\)  # (.+)$", code, flags=re.MULTILINE)

    exec(compile(code, "document", "exec"), {"__name__": "__main__"})

    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def file_named(name: str) -> Path | None:
    """The file or folder that documents call so: its path in the repository, or in the package."""
    return next(
        (root / name for root in (REPOSITORY, REPOSITORY / "aioexec") if (root / name).exists()), None
    )


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


@cache
def words_of_the_sources() -> set[str]:
    folders = (REPOSITORY / name for name in ("aioexec", "tests", "bench", "examples"))
    files = [file for folder in folders for file in folder.rglob("*.py")]
    files += [REPOSITORY / "pyproject.toml", *(REPOSITORY / ".ci").iterdir()]
    return set().union(*(words_of(text_of(file)) for file in files if file.is_file()))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_files_it_names_exist(document):
    named = re.findall(r"`([\w/]+\.(?:py|md)|[\w/]+/)`", text_of(document))

    assert [name for name in named if file_named(name) is None] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_it_says_is_in_a_file_is_there(document):
    placed = re.findall(r"`([\w.]+)`(?: \w+)? (?:in|from|of)\s+`([\w/]+\.py)`", text_of(document))

    files = [(name.rpartition(".")[2], file_named(file)) for name, file in placed]
    assert [(name, file) for name, file in files if file is None or name not in words_of(text_of(file))] == []


def rows_of_the_glossary() -> list[tuple[list[str], list[str]]]:
    """The terms of each row, without what is in parentheses, and the files or folders where they are defined."""
    lines = text_of(REPOSITORY / "docs" / "glossary.md").splitlines()
    cells = [re.split(r" *\| *", line.strip("| ")) for line in lines if line.startswith("| ")][1:]
    return [
        (re.sub(r" \(.*?\)| of a program", "", terms).split(", "), re.findall(r"`([^`]+)`", where))
        for terms, _, where in cells
    ]


def names_term(name: str, term: str) -> bool:
    """Whether a file, or one of a folder, has a term in its name or text: in prose, or as a name of Python."""
    place = file_named(name)
    assert place is not None, name
    words = [re.escape(word) for word in re.split("[ -]", term.removesuffix("s"))]
    pattern = re.compile(r"[\s_-]*".join(words), re.IGNORECASE)
    sources = place.rglob("*.py") if place.is_dir() else [place]
    return any(pattern.search(f"{name}\n{text_of(source)}") for source in sources)


def test_the_files_that_the_glossary_names_have_its_terms():
    rows = rows_of_the_glossary()

    assert len(rows) > 40
    for terms, files in rows:
        assert files, terms
        assert [term for term in terms if not any(names_term(name, term) for name in files)] == []
        assert [name for name in files if not any(names_term(name, term) for term in terms)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_sources_have_the_words_of_its_code(document):
    prose = re.sub(r"^```.*?^```", "", text_of(document), flags=re.DOTALL | re.MULTILINE)
    spans = [span for span in re.findall(r"`([^`\n]+)`", prose) if "/" not in span]

    assert [span for span in spans if not words_of(span) <= words_of_the_sources()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_its_links_lead_somewhere(document):
    broken = []
    for link in re.findall(r"\]\(([^)]+)\)", text_of(document)):
        path, _, heading = link.partition("#")
        target = document.parent / path
        if not target.exists() or (heading and heading not in anchors(target)):
            broken.append(link)

    assert broken == []


def anchors(document: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", text_of(document), flags=re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_tests_that_it_names_exist(document):
    missing = []
    for path, name in re.findall(r"\[(tests/[\w/]+\.py)(?:::(\w+))?\]", text_of(document)):
        file = REPOSITORY / path
        if not file.exists() or (name and f"def {name}(" not in file.read_text(encoding="utf-8")):
            missing.append(f"{path}::{name}")

    assert missing == []


WALKS: dict[str, dict[str, tuple[str, ...]]] = {
    "An op": {
        "Square": (
            "ops/math/math_functions.py",
            "names/op_modules.py",
            "tests/ops/math/cases_elementwise.py",
            "tests/interop/parity/tables/",
        ),
        "square": (
            "ops/math/math_functions.py",
            "names/tensors.py",
            "aioexec/math.py",
            "aioexec/name_tables/aioexec_math.py",
        ),
    },
    "A device type": {
        "ReferenceDevice": ("devices/reference.py",),
        "ReferenceDeviceFactory": ("devices/builtin.py", "tests/devices/test_device.py"),
        "REFERENCE": ("tests/devices/test_registry.py",),
    },
    "A transport": {
        "Channel": (
            "distributed/transport/grpc/",
            "distributed/transport/memory/",
            "distributed/transport/local.py",
        ),
        "MemoryTransport": ("distributed/transport/memory/", "tests/distributed/test_memory_transport.py"),
        "NegotiatedTransport": ("distributed/server/server.py", "distributed/transport/channels.py"),
    },
    "A pass": {
        "drop_identities": (
            "planning/simplify.py",
            "planning/passes.py",
            "tests/planning/test_passes.py",
            "tests/planning/test_pipeline.py",
            "tests/planning/test_simplify.py",
        ),
    },
}
"""The models of the walks of docs/contributing.md: by section a name, and the files that a walk with it passes through."""


@pytest.mark.parametrize("section", WALKS)
def test_a_walk_of_contributing_passes_through_all_files_that_have_its_model(section):
    text = (
        text_of(REPOSITORY / "docs" / "contributing.md").partition(f"## {section}\n")[2].partition("\n## ")[0]
    )

    for model, files in WALKS[section].items():
        for name in files:
            place = file_named(name)
            assert f"`{name}`" in text
            assert place is not None
            sources = place.rglob("*.py") if place.is_dir() else [place]
            assert any(model in words_of(text_of(source)) for source in sources), (model, name)


def test_the_figure_of_the_layers_has_every_package():
    figure = blocks(REPOSITORY / "docs" / "architecture.md", "")[0]
    packages = {path.parent.name for path in (REPOSITORY / "aioexec").glob("*/__init__.py")}

    assert packages - words_of(figure) == set()


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [REPOSITORY / "README.md"]
    while waiting:
        document = waiting.pop()
        if document not in reached:
            reached.add(document)
            links = re.findall(r"\]\(([^)#]+\.md)", text_of(document))
            waiting += [(document.parent / link).resolve() for link in links]

    assert set(DOCUMENTS) <= reached


def test_the_two_commands_of_the_readme_each_do_all_the_set_up():
    lines = [line for block in blocks(REPOSITORY / "README.md", "sh") for line in block.splitlines()]
    commands = [line for line in lines if "venv" in line]

    assert [command.split(" && ")[0] for command in commands[:2]] == ["python3 -m venv .venv"] * 2
    assert commands[0].endswith("aioexec demo")
    assert commands[1].endswith("-m pytest")
