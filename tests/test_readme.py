"""What the README says is true: its code runs and prints what it says, and the files it names exist."""

import asyncio
import re
from pathlib import Path

import pytest

from aioexec.devices import registry
from aioexec.graph import kernel_registry
from aioexec.sessions import factory
from aioexec.train.file_writer_cache import FileWriterCache

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def own_process(monkeypatch, tmp_path):
    """What a script registers and writes is gone when it is over, as if it had a process of its own."""
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    monkeypatch.setattr(factory, "_factories", dict(factory._factories))
    kernels = {op: list(kernels) for op, kernels in kernel_registry._kernels.items()}
    monkeypatch.setattr(kernel_registry, "_kernels", kernels)
    monkeypatch.chdir(tmp_path)
    yield
    asyncio.run(FileWriterCache.clear())  # as at the end of a process


@pytest.mark.slow
@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize("code", blocks("python"))
def test_the_code_runs_and_prints_what_its_comments_say(code, capsys):
    expected = re.findall(r"^ *print\(.*\)  # (.+)$", code, flags=re.MULTILINE)

    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})

    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def test_the_files_it_names_exist():
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", README)

    missing = [
        name
        for name in named
        if not any((root / name).exists() for root in (REPOSITORY, REPOSITORY / "aioexec"))
    ]

    assert named
    assert missing == []


def test_its_two_commands_each_do_all_the_set_up():
    commands = [line for block in blocks("sh") for line in block.splitlines() if "venv" in line]

    assert [command.split(" && ")[0] for command in commands[:2]] == ["python3 -m venv .venv"] * 2
    assert commands[0].endswith("aioexec demo")
    assert commands[1].endswith("-m pytest")
