"""The `checkpoint` file: its contents, relative paths, and lookups."""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time

import pytest

from aioexec.errors import FailedPreconditionError, GraphValueError, OpError
from aioexec.train import (
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    remove_checkpoint,
    update_checkpoint_state,
)


def touch(*paths: Path | str) -> None:
    for path in paths:
        Path(path).write_bytes(b"x")


def test_the_state_names_the_latest_and_all(tmp_path: Path) -> None:
    update_checkpoint_state(tmp_path, "b", ["a", "b"])

    assert (tmp_path / "checkpoint").read_text() == (
        'model_checkpoint_path: "b"\nall_model_checkpoint_paths: "a"\nall_model_checkpoint_paths: "b"\n'
    )
    state = get_checkpoint_state(tmp_path)
    assert state.model_checkpoint_path == str(tmp_path / "b")
    assert list(state.all_model_checkpoint_paths) == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_a_latest_checkpoint_that_is_not_listed_is_added_without_changing_the_list() -> None:
    listed = ["a"]

    state = generate_checkpoint_state_proto("/d", "b", listed)

    assert list(state.all_model_checkpoint_paths) == ["a", "b"]
    assert listed == ["a"]


def test_times_are_kept(tmp_path: Path) -> None:
    update_checkpoint_state(tmp_path, "b", ["a", "b"], None, [1.5, 2.5], 0.5)

    state = get_checkpoint_state(tmp_path)
    assert list(state.all_model_checkpoint_timestamps) == [1.5, 2.5]
    assert state.last_preserved_timestamp == 0.5
    with pytest.raises(ValueError, match="must match checkpoint paths"):
        generate_checkpoint_state_proto(tmp_path, "b", ["a", "b"], [1.5])


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        ("/d", "m-1", "m-1"),
        ("/d", "/d/m-1", "/d/m-1"),
        ("runs", "runs/m-1", "m-1"),
        ("runs", "/x/m-1", "/x/m-1"),
    ],
)
def test_relative_paths_are_seen_from_a_relative_folder(folder: str, path: str, expected: str) -> None:
    assert generate_checkpoint_state_proto(folder, path).model_checkpoint_path == expected


def test_there_is_no_state_where_nothing_was_saved(tmp_path: Path) -> None:
    assert get_checkpoint_state(tmp_path) is None
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "nowhere") is None


@pytest.mark.parametrize("content", [b"model_checkpoint_path", b'nothing: "x"', b"\xff\xfe\0", b'model: "'])
def test_a_state_that_cannot_be_read_is_as_none_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "checkpoint").write_bytes(content)

    assert get_checkpoint_state(tmp_path) is None
    assert "Checkpoint ignored" in caplog.text


def test_a_folder_in_the_place_of_a_state_is_as_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()

    assert get_checkpoint_state(tmp_path) is None


def test_a_state_that_names_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text('all_model_checkpoint_paths: "a"')

    with pytest.raises(GraphValueError, match="Invalid checkpoint state"):
        get_checkpoint_state(tmp_path)


def test_a_checkpoint_may_not_have_the_name_of_its_state(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="conflicts with path used for checkpoint state"):
        update_checkpoint_state(tmp_path, str(tmp_path / "checkpoint"))


def test_the_latest_checkpoint_is_one_that_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    update_checkpoint_state(tmp_path, "m-1")

    assert latest_checkpoint(tmp_path) is None
    assert "Couldn't match files" in caplog.text
    touch(tmp_path / "m-1.index")
    assert latest_checkpoint(tmp_path) == str(tmp_path / "m-1")


@pytest.mark.parametrize("name", ["m.index", "m", "m[1].index"])
def test_a_checkpoint_exists_in_either_format(tmp_path: Path, name: str) -> None:
    prefix = tmp_path / name.removesuffix(".index")
    assert not checkpoint_exists(prefix)

    touch(tmp_path / name)

    assert checkpoint_exists(prefix)
    assert checkpoint_exists(str(prefix))


def test_shards_of_the_first_format_exist_under_their_pattern(tmp_path: Path) -> None:
    touch(tmp_path / "m-00000-of-00002", tmp_path / "m-00001-of-00002")

    assert checkpoint_exists(f"{tmp_path}/m-?????-of-00002")


@pytest.mark.parametrize("path", ["\\000/*", "a\\000*", "[" * 5000, "*/a", "**/a", "/*/*/*/*/*/*/a"])
def test_a_state_that_names_a_pattern_for_folders_or_no_file_at_all_has_no_latest_checkpoint(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{path}"')
    (tmp_path / "b").mkdir()
    touch(tmp_path / "b" / "a.index")
    before = process_time()

    assert latest_checkpoint(tmp_path) is None
    assert process_time() - before < 0.5, "of the processor; to walk over the disk takes far longer"


def test_a_checkpoint_in_a_folder_whose_name_looks_like_a_pattern_exists(tmp_path: Path) -> None:
    (tmp_path / "[x]*").mkdir()

    touch(tmp_path / "[x]*" / "m-00000-of-00001")

    assert checkpoint_exists(f"{tmp_path}/[x]*/m-?????-of-00001")


def test_times_of_writing_are_of_those_that_are_there(tmp_path: Path) -> None:
    touch(tmp_path / "a.index", tmp_path / "c")
    os.utime(tmp_path / "a.index", (5, 5))
    os.utime(tmp_path / "c", (7, 7.5))

    assert get_checkpoint_mtimes([str(tmp_path / name) for name in "abc"]) == [5.0, 7.5]


def test_a_checkpoint_is_removed_with_its_meta_graph_and_no_other(tmp_path: Path) -> None:
    removed = ["m-1.index", "m-1.data-00000-of-00002", "m-1.data-00001-of-00002", "m-1.meta"]
    others = ["m-10.index", "m-1.other", "m-1"]
    touch(*(tmp_path / name for name in removed + others))

    remove_checkpoint(tmp_path / "m-1")
    remove_checkpoint(tmp_path / "m-1")

    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_a_checkpoint_of_the_first_format_is_removed(tmp_path: Path) -> None:
    touch(tmp_path / "m-00000-of-00002", tmp_path / "m-00001-of-00002", tmp_path / "m.meta")

    remove_checkpoint(f"{tmp_path}/m-?????-of-00002", checkpoint_format_version=1)

    assert os.listdir(tmp_path) == []


def test_a_state_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    touch(tmp_path / "file")

    with pytest.raises(FailedPreconditionError, match="Not a directory"):
        update_checkpoint_state(tmp_path / "file", "m")
    with pytest.raises(OpError, match="No such file"):
        update_checkpoint_state(tmp_path / "nowhere", "m")
