"""The `checkpoint` file of a folder: the list of its checkpoints, and the latest one.

It is a text proto, CheckpointState. It is replaced atomically, never changed in place, and lists a checkpoint only after that
was written completely. All calls here block; coroutines make them through `off_loop`.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioexec.errors import GraphValueError, NotFoundError, OpError
from aioexec.formats.bundle_entries import index_name
from aioexec.formats.checkpoint_files import InputFile, OutputFile, naming, sync_folder

logger = logging.getLogger(__name__)

DEFAULT_NAME: Final = "checkpoint"
V1: Final = 1
V2: Final = 2
_MAX_STATE: Final = 64 << 20
_LONGEST_PATTERN: Final = 1 << 10
"""The most characters of a pattern, since matching takes quadratic time; a file name has at most 255."""
_SHARDS_OF_PREFIX: Final = re.compile(r"-[\d?]+-of-\d+$")

Path = str | os.PathLike[str]


def state_path(folder: Path, latest_filename: str | None = None) -> str:
    """The path of the checkpoint state of a folder."""
    return os.path.join(os.fspath(folder), latest_filename or DEFAULT_NAME)


def generate_checkpoint_state_proto(
    save_dir: Path,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """A CheckpointState: the latest checkpoint, and all of them from the oldest to the latest.

    Relative paths are made relative to `save_dir`, if this is relative too.

    Raises:
        GraphValueError: the number of timestamps is not that of the paths.
    """
    from aioexec.formats.protos import CheckpointState

    paths = list(all_model_checkpoint_paths or ())
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    times = list(all_model_checkpoint_timestamps or ())
    if times and len(times) != len(paths):
        raise GraphValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths "
            f"(got paths {paths} and timestamps {times})"
        )

    def in_folder(path: str) -> str:
        keep = os.path.isabs(save_dir) or os.path.isabs(path)
        return path if keep else os.path.relpath(path, save_dir)

    return CheckpointState(
        model_checkpoint_path=in_folder(model_checkpoint_path),
        all_model_checkpoint_paths=map(in_folder, paths),
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def update_checkpoint_state(
    save_dir: Path,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the checkpoint state of a folder.

    Raises:
        RuntimeError: the checkpoint has the name of the state file.
        OpError: the file cannot be written; the previous one remains.
    """
    write_checkpoint_state(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths,
        latest_filename,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def write_checkpoint_state(
    save_dir: Path,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    save_relative_paths: bool = False,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """`update_checkpoint_state`; with `save_relative_paths`, all paths are relative to the folder."""
    from google.protobuf import text_format

    def seen(path: str) -> str:
        return os.path.relpath(path, save_dir) if save_relative_paths and os.path.isabs(path) else path

    state = generate_checkpoint_state_proto(
        save_dir,
        seen(model_checkpoint_path),
        [seen(path) for path in all_model_checkpoint_paths or ()],
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )
    target = state_path(save_dir, latest_filename)
    if target == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path {model_checkpoint_path!r} conflicts with path used for checkpoint state. "
            "Please use a different save path."
        )
    with OutputFile(target) as file:
        file.write(text_format.MessageToString(state).encode())
        file.commit()
    sync_folder(target)


def get_checkpoint_state(checkpoint_dir: Path, latest_filename: str | None = None) -> Any:
    """The checkpoint state of a folder, with paths that are absolute or begin with the folder.

    Returns:
        A CheckpointState; None if there is no file, or it cannot be read (which is logged).

    Raises:
        GraphValueError: the file lists no checkpoint.
    """
    from google.protobuf import text_format

    from aioexec.formats.protos import CheckpointState

    path = state_path(checkpoint_dir, latest_filename)
    try:
        with InputFile(path) as file:
            text = file.read_at(0, min(file.size, _MAX_STATE))
        state = text_format.Merge(text, CheckpointState())
    except NotFoundError:
        return None
    except (OpError, text_format.ParseError, UnicodeDecodeError) as error:
        logger.warning("%s: %s", type(error).__name__, error)
        logger.warning("%s: Checkpoint ignored", path)
        return None
    if not state.model_checkpoint_path:
        raise GraphValueError(f"Invalid checkpoint state loaded from {os.fspath(checkpoint_dir)}")
    folder = os.fspath(checkpoint_dir)
    state.model_checkpoint_path = os.path.join(folder, state.model_checkpoint_path)
    state.all_model_checkpoint_paths[:] = [
        os.path.join(folder, each) for each in state.all_model_checkpoint_paths
    ]
    return state


def latest_checkpoint(checkpoint_dir: Path, latest_filename: str | None = None) -> str | None:
    """The path of the latest checkpoint in a folder; None if there is no state, or the checkpoint does not exist."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    path: str = state.model_checkpoint_path
    if checkpoint_exists(path):
        return path
    logger.error("Couldn't match files for checkpoint %s", path)
    return None


def checkpoint_exists(checkpoint_prefix: Path) -> bool:
    """Whether a checkpoint with this path exists, in either format."""
    return _file_of(os.fspath(checkpoint_prefix)) is not None


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[Path]) -> list[float]:
    """The modification times of the existing checkpoints among these paths, in seconds since the epoch."""
    times = []
    for prefix in checkpoint_prefixes:
        path = _file_of(os.fspath(prefix))
        if path is not None:
            with contextlib.suppress(FileNotFoundError):  # another process may delete old ones meanwhile
                times.append(os.stat(path).st_mtime)
    return times


def _file_of(prefix: str) -> str | None:
    """The file whose existence defines that of the checkpoint."""
    for path in (index_name(prefix), prefix):
        found = matching(path)
        if found:
            return found[0]
    return None


def matching(path: str) -> list[str]:
    """The file of that name if it exists, otherwise the files in its folder whose names match its last component as a pattern.

    Paths come from the state file, which is untrusted: a pattern in a folder name could search all disks.
    """
    if os.path.exists(path):
        return [path]
    folder, name = os.path.split(path)
    if len(name) > _LONGEST_PATTERN:
        return []
    with contextlib.suppress(ValueError):  # a NUL byte
        return sorted(glob.glob(os.path.join(glob.escape(folder), name)))
    return []


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """The path of a checkpoint's meta graph."""
    return f"{without_shards(checkpoint_filename)}.{meta_graph_suffix}"


def without_shards(checkpoint_filename: str) -> str:
    """The path of a checkpoint without the shard suffix of the first format."""
    return _SHARDS_OF_PREFIX.sub("", checkpoint_filename)


def remove_checkpoint(
    checkpoint_prefix: Path, checkpoint_format_version: int = V2, meta_graph_suffix: str = "meta"
) -> None:
    """Remove the files of a checkpoint; the one that defines its existence first.

    Raises:
        OpError: a file cannot be removed.
    """
    for path in checkpoint_files(os.fspath(checkpoint_prefix), checkpoint_format_version, meta_graph_suffix):
        with contextlib.suppress(NotFoundError), naming(path):
            os.unlink(path)


def checkpoint_files(prefix: str, version: int, meta_graph_suffix: str = "meta") -> list[str]:
    """The files of a checkpoint: first the one that defines its existence, last the meta graph, which may not exist."""
    if version == V2:
        paths = [index_name(prefix), *glob.glob(f"{glob.escape(prefix)}.data-?????-of-?????")]
    else:
        paths = matching(prefix)
    return [*paths, meta_graph_filename(prefix, meta_graph_suffix)]
