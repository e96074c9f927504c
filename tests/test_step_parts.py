"""The breakdown of a step's time refers to the functions that a step calls."""

import pytest

from bench import step_parts


async def test_every_statement_of_the_breakdown_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(step_parts, "REPEATS", 1)
    monkeypatch.setattr(step_parts, "STEPS", 1)

    await step_parts.main()

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 + len(step_parts.LEVELS) + sum(len(parts) for _, _, parts in step_parts.LEVELS)
