"""The object cache returns the stored object, or nothing: never a damaged, foreign or torn one."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aioexec.devices.jit import cache as cache_module
from aioexec.devices.jit.cache import HEADER, SUFFIX, ObjectCache, default_directory, prune
from aioexec.devices.jit.objects import ObjectCode

KEY = "ab" * 32
CODE = ObjectCode("kernel", b"\x7fELF some bytes")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def entry(cache: ObjectCache, key: str = KEY) -> Path:
    assert cache.directory is not None
    return Path(cache.directory) / f"{key}{SUFFIX}"


def test_an_entry_comes_back_as_it_was_stored(cache):
    assert cache.load(KEY) is None

    assert cache.store(KEY, CODE)
    assert cache.load(KEY) == CODE


def test_folder_and_entries_are_private_to_the_user(cache):
    cache.store(KEY, CODE)

    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(cache).stat().st_mode) == 0o600
    assert os.listdir(cache.directory) == [KEY + SUFFIX]


@pytest.mark.parametrize("place", [0, 9, 12, HEADER.size - 1, HEADER.size + 2, -1])
def test_a_damaged_entry_is_not_loaded_and_is_removed(cache, place, caplog):
    cache.store(KEY, CODE)
    content = bytearray(entry(cache).read_bytes())
    content[place] ^= 1
    entry(cache).write_bytes(content)

    assert cache.load(KEY) is None
    assert not entry(cache).exists()
    assert "damaged" in caplog.text


def test_an_entry_that_is_too_large_to_be_one_is_not_read_and_is_removed(cache, caplog):
    cache.store(KEY, CODE)
    os.truncate(entry(cache), 1 << 40)

    assert cache.load(KEY) is None
    assert not entry(cache).exists()
    assert "expected at most" in caplog.text


@pytest.mark.parametrize("length", [0, 10, HEADER.size, HEADER.size + 8])
def test_a_truncated_entry_is_not_loaded(cache, length):
    cache.store(KEY, CODE)
    entry(cache).write_bytes(entry(cache).read_bytes()[:length])

    assert cache.load(KEY) is None


def test_an_entry_under_another_key_is_not_loaded(cache):
    cache.store(KEY, CODE)
    other = "cd" * 32
    entry(cache).rename(entry(cache, other))

    assert cache.load(other) is None


def test_an_entry_of_another_abi_version_is_not_loaded(cache, monkeypatch):
    cache.store(KEY, CODE)
    monkeypatch.setattr(cache_module, "ABI_VERSION", cache_module.ABI_VERSION + 1)

    assert cache.load(KEY) is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_others_can_write_is_not_loaded_nor_removed(cache, mode, caplog):
    cache.store(KEY, CODE)
    entry(cache).chmod(mode)

    assert cache.load(KEY) is None
    assert entry(cache).exists()
    assert "another user" in caplog.text


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_others_can_write_is_not_used_and_that_is_said_once(cache, mode, caplog):
    cache.store(KEY, CODE)
    cache.directory.chmod(mode)

    assert cache.load(KEY) is None
    assert not cache.store("cd" * 32, CODE)
    assert caplog.text.count("another user") == 1


def test_another_users_folder_is_not_used(cache, monkeypatch):
    cache.store(KEY, CODE)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)

    assert cache.load(KEY) is None
    assert not cache.store(KEY, CODE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_another_users_entry_is_not_loaded_nor_removed(cache):
    cache.store(KEY, CODE)
    os.chown(entry(cache), 12345, 12345)

    assert cache.load(KEY) is None
    assert entry(cache).exists()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_plain_file_is_not_loaded(cache, kind, tmp_path):
    cache.store(KEY, CODE)
    content = entry(cache).read_bytes()
    entry(cache).unlink()
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        entry(cache).symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        entry(cache).mkdir()
    else:
        os.mkfifo(entry(cache))

    assert cache.load(KEY) is None


def test_a_place_that_cannot_be_a_folder_means_no_cache(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "objects")

    assert not cache.store(KEY, CODE)
    assert not cache.store(KEY, CODE)
    assert cache.load(KEY) is None
    assert caplog.text.count("cannot use") == 1


def test_a_folder_that_cannot_be_written_still_gives_its_entries(cache, monkeypatch, caplog):
    cache.store(KEY, CODE)

    def refuse(*arguments: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(cache_module, "write_new", refuse)
    assert not cache.store("cd" * 32, CODE)
    assert cache.load(KEY) == CODE
    assert "read-only" in caplog.text


def test_a_full_disk_leaves_nothing_behind(cache, monkeypatch):
    cache.store(KEY, CODE)
    real_open: Any = open

    def full(*arguments: object, **options: object):
        file = real_open(*arguments, **options)
        file.close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "open", full, raising=False)
    assert not cache.store("cd" * 32, CODE)
    assert os.listdir(cache.directory) == [KEY + SUFFIX]


def test_without_a_folder_nothing_is_kept():
    cache = ObjectCache(None)

    assert not cache.store(KEY, CODE)
    assert cache.load(KEY) is None


def test_concurrent_writers_of_one_key_leave_one_whole_entry(cache):
    with ThreadPoolExecutor(8) as pool:
        stored = list(pool.map(lambda _: cache.store(KEY, CODE), range(64)))

    assert all(stored)
    assert cache.load(KEY) == CODE
    assert os.listdir(cache.directory) == [KEY + SUFFIX]


def test_the_oldest_entries_go_when_the_folder_is_too_large(cache):
    keys = [f"{number:064x}" for number in range(4)]
    for age, key in enumerate(reversed(keys)):
        cache.store(key, CODE)
        os.utime(entry(cache, key), (age, age))
    foreign = ["f" * 64, "notes.txt"]
    for name in foreign:
        (cache.directory / name).write_bytes(bytes(1000))
    size = entry(cache, keys[0]).stat().st_size

    folder = os.open(cache.directory, os.O_RDONLY)
    prune(folder, 2 * size)
    os.close(folder)
    kept = [entry(cache, key).name for key in keys[:2]]
    assert sorted(os.listdir(cache.directory)) == [*kept, *foreign]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"AIOEXEC_CACHE_DIR": "/a/b"}, Path("/a/b")),
        ({"AIOEXEC_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/c"}, Path("/a/b")),
        ({"XDG_CACHE_HOME": "/c"}, Path("/c/aioexec")),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/aioexec")),
        ({"HOME": "/h"}, Path("/h/.cache/aioexec")),
    ],
)
def test_the_environment_says_where_entries_live(environ, expected, monkeypatch):
    for name in ("AIOEXEC_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert default_directory() == str(expected)


def test_without_a_home_there_is_no_default_folder(monkeypatch):
    for name in ("AIOEXEC_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)

    assert default_directory() is None
