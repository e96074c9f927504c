"""Files that appear atomically: written data is on its way to the disk before the commit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aioexec.formats.checkpoint_files import OutputFile

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("refused", [False, True])
def test_a_long_file_is_sent_off_in_stretches_that_leave_nothing_out_and_has_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    stretches: list[tuple[int, int]] = []

    def advise(descriptor: int, offset: int, length: int, advice: int) -> None:
        stretches.append((offset, length))
        if refused:
            raise OSError("no such advice here")

    monkeypatch.setattr(os, "posix_fadvise", advise)
    path = tmp_path / "long"
    pieces = [bytes([k]) * (3 * MEBIBYTE) for k in range(7)]
    with OutputFile(str(path)) as file:
        for piece in pieces:
            file.write(piece)
        file.commit()

    assert path.read_bytes() == b"".join(pieces)
    assert stretches == [(0, 9 * MEBIBYTE), (9 * MEBIBYTE, 9 * MEBIBYTE)]
