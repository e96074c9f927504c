"""Event files of processes that end, fork, are killed or have no permission to write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from aioexec.formats.event_files import summary_iterator

PROGRAM = """
    import os, sys
    from aioexec.observability.summary_writer import FileWriter
    from aioexec.formats.protos import Summary

    def add(step):
        writer.add_summary(Summary(value=[Summary.Value(tag="loss", simple_value=1.0)]), step)

    writer = FileWriter(sys.argv[1])
"""


def run(program: str, directory: Path, status: int = 0) -> list[list[int]]:
    """The steps in each event file that a program left."""
    source = textwrap.dedent(PROGRAM) + textwrap.dedent(program)
    ended = subprocess.run([sys.executable, "-c", source, str(directory)], check=False)
    assert ended.returncode == status
    files = sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return [[event.step for event in summary_iterator(path) if event.HasField("summary")] for path in files]


@pytest.mark.slow
def test_a_program_that_ends_without_closing_loses_nothing(tmp_path):
    assert run("for step in range(1000): add(step)", tmp_path) == [list(range(1000))]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_writes_its_own_events_only(tmp_path):
    program = """
        add(1)
        child = os.fork()
        add(2 if child else 3)
        if not child:
            writer._events.flush_now()
            os._exit(0)
        os.waitpid(child, 0)
    """

    assert sorted(run(program, tmp_path)) == [[1, 2], [3]]


@pytest.mark.slow
def test_a_killed_program_keeps_what_was_flushed(tmp_path):
    program = """
        import asyncio

        async def main():
            for step in range(500): add(step)
            await writer.flush()
            for step in range(500, 1000): add(step)
            os.kill(os.getpid(), 9)

        asyncio.run(main())
    """

    (steps,) = run(program, tmp_path, -signal.SIGKILL)

    assert steps[:500] == list(range(500))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limits")
def test_where_a_file_may_not_grow_it_holds_whole_events_and_goes_on_when_it_may(tmp_path):
    program = """
        import resource

        def limit(size):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        def insist(function, *arguments):
            for _ in range(2):
                try:
                    return function(*arguments)
                except Exception as error:
                    reported.append(str(error))

        reported = []
        limit(10_001)
        for step in range(1000): insist(add, step)
        insist(writer._events.flush_now)
        assert reported and all("File too large" in each for each in reported), reported
        from aioexec.formats.event_files import summary_iterator
        (name,) = os.listdir(sys.argv[1])
        with writer._events._writing:  # else its thread may be about to cut off what did not fit
            before = len(list(summary_iterator(os.path.join(sys.argv[1], name))))
        assert before < 1000, before
        limit(resource.RLIM_INFINITY)
    """

    assert run(program, tmp_path) == [list(range(1000))]
