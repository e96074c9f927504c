"""`aioexec serve` as a process: it serves SavedModels, follows their folder, and drains at SIGTERM."""

import asyncio
import contextlib
import json
import os
import signal
import sys

import pytest

from aioexec.cli import main
from aioexec.serving import PredictionClient
from tests.serving.saved_models import write_adder

pytestmark = [pytest.mark.network, pytest.mark.slow]


@contextlib.asynccontextmanager
async def serving(*arguments):
    """The process and what it says first."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aioexec.cli", "serve", "--json", "--log", "json", "--port", "0", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, "AIOEXEC_JIT": "off"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, json.loads(await process.stdout.readline())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def logged(process, *messages):
    """Read logs until all of these messages have come."""
    missing = set(messages)
    while missing:
        line = await process.stderr.readline()
        assert line, f"{missing} were not logged"
        missing.discard(json.loads(line)["message"])


async def test_the_process_serves_models_and_ends_at_a_signal(tmp_path):
    folder, config = tmp_path / "adder", tmp_path / "models.toml"
    write_adder(folder / "1", 10)
    write_adder(folder / "2", 20)
    config.write_text('[models.both]\npath = "adder"\nversions = "all"\nlabels = {stable = 1}\n')
    async with serving("--config", str(config), "--model", f"newest={folder}") as (process, said):
        versions = ("both' version 2", "both' version 1", "newest' version 2")
        await logged(process, *(f"model '{version}: available" for version in versions))

        assert said["models"] == ["both", "newest"]
        for path, answer in (("newest", 23), ("both/labels/stable", 13)):
            async with PredictionClient(f"{said['url']}/v1/models/{path}:predict") as client:
                assert await client.predict([[1, 2]]) == [answer]

        process.send_signal(signal.SIGTERM)
        await logged(process, "ending: requests have 10 s", "ended")
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a model: give --model NAME=PATH, or --config FILE"),
        (["--model", "a=x", "--model", "a=y"], "two models have one name: ['a', 'a']"),
        (["--model", "a=x", "--host", "0.0.0.0"], "it can be reached from other machines"),
        (["--config", "none.toml"], "configuration 'none.toml'"),
        (["--model", "a=x", "--token-file", "none"], "token file 'none'"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert main(["serve", "--port", "0", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "digits"], "expected NAME=PATH, got 'digits'"),
        (["--model", "a/b=x"], "a model's name must be printable"),
        (["--port", "65536"], "expected a port, got '65536'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(["serve", *arguments])

    assert message in capsys.readouterr().err
