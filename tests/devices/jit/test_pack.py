"""Kernel packs: found by what the kernels were compiled from, checked, reproducible, and what the sources give."""

import ctypes
import random
from pathlib import Path

import pytest

from aioexec.devices.jit import pack, usual_kernels
from aioexec.devices.jit.cache import DamagedEntryError, ObjectCache
from aioexec.devices.jit.library import KernelLibrary
from aioexec.devices.jit.objects import ObjectCode
from aioexec.devices.jit.pack_builder import Builder, source_of
from aioexec.devices.jit.target import (
    NEON,
    PROCESSOR_CLASSES,
    V3,
    V4,
    host,
    host_class,
    processor_class,
    target_of_class,
    versions,
)
from aioexec.graph.kernels.kernel import ElementwiseKernel, Kernel, LoopKernel

KEYS = [f"{number:064x}" for number in (3, 1, 2)]
OBJECTS = {key: ObjectCode("name", key.encode() * 10) for key in KEYS}


def seven(x) -> int:
    return 7


def nested(x) -> int:
    return seven(x) + 1


def allocates(x) -> int:
    return len([x])


SEVEN = LoopKernel(seven, ("int32",), 0, 0)
NESTED = LoopKernel(nested, ("int32",), 0, 0)
ALLOCATES = LoopKernel(allocates, ("int32",), 0, 0)
SUM = ElementwiseKernel("z = x + y", (("x", "float32"), ("y", "float32")), (("z", "float32"),), "vvv")
NONSENSE = ElementwiseKernel("z = (", (("x", "float32"),), (("z", "float32"),), "vv")


@pytest.fixture
def opened(tmp_path):
    """Write a pack of this content and open it."""

    def opened(content: bytes) -> pack.KernelPack | None:
        path = tmp_path / "pack"
        path.write_bytes(content)
        return pack.open_pack(str(path))

    return opened


@pytest.fixture
def content() -> bytes:
    return pack.encode_pack(OBJECTS, ["1", "2"])


def test_a_pack_returns_what_was_put_into_it(opened, content):
    found = opened(content)

    assert found is not None
    assert {key: found.load(key) for key in KEYS} == OBJECTS
    assert found.load("f" * 64) is None
    assert found.versions == ("1", "2")


def test_equal_objects_give_equal_packs(content):
    assert pack.encode_pack(dict(sorted(OBJECTS.items())), ["1", "2"]) == content


def test_there_may_be_no_pack(tmp_path):
    assert pack.open_pack(str(tmp_path / "none")) is None


def changed(content: bytes, place: int) -> bytes:
    copy = bytearray(content)
    copy[place] ^= 1
    return bytes(copy)


@pytest.mark.parametrize("place", [0, 8, 16, 50, 55, pack.HEADER.size + 40])
def test_a_pack_with_a_damaged_index_is_not_used(opened, content, caplog, place):
    assert opened(changed(content, place)) is None
    assert "not used" in caplog.text


@pytest.mark.parametrize("length", [0, 5, 80])
def test_a_pack_that_is_cut_off_is_not_used(opened, content, caplog, length):
    assert opened(content[:length]) is None
    assert "not used" in caplog.text


def test_a_damaged_entry_is_refused_and_the_others_are_not(opened, content):
    found = opened(changed(content, len(content) - 1))

    assert found is not None
    assert found.load(KEYS[1]) == OBJECTS[KEYS[1]]
    with pytest.raises(DamagedEntryError, match="digest"):
        found.load(KEYS[0])


# The class of a processor


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", V4, "x86-64-v4"),
        ("x86_64", V3, "x86-64-v3"),
        ("x86_64", V4.replace("avx512f", ""), "x86-64-v3"),
        ("x86_64", V4.replace("avx512dq", ""), None),
        ("x86_64", V3.replace("fma", ""), None),
        ("x86_64", NEON, None),
        ("aarch64", NEON, "aarch64"),
        ("riscv64", "", None),
    ],
)
def test_a_processor_belongs_to_the_most_capable_class_it_has_all_features_of(machine, features, expected):
    text = ",".join([*(f"+{feature}" for feature in features.split()), "-sse4a", "-avx10.1"])

    assert processor_class(machine, text) == expected


@pytest.mark.parametrize("name", [name for classes in PROCESSOR_CLASSES.values() for name in classes])
def test_the_target_of_a_class_belongs_to_it(name):
    machine = next(machine for machine, classes in PROCESSOR_CLASSES.items() if name in classes)

    assert processor_class(machine, target_of_class(name).features) == name


# In the library


@pytest.fixture
def library_with(tmp_path, opened):
    """Make libraries that find a pack of these objects, and an empty cache."""
    made = []

    def make(objects: dict[str, ObjectCode], damage: int | None = None) -> KernelLibrary:
        content = pack.encode_pack(objects, versions())
        found = opened(content if damage is None else changed(content, damage))
        made.append(KernelLibrary(ObjectCache(tmp_path / "cache"), find_pack=lambda: found))
        return made[-1]

    yield make
    for library in made:
        library.shutdown()


def built(tmp_path: Path, *kernels):
    return Builder(host(), ObjectCache(tmp_path / "builder")).build(kernels)


@pytest.mark.slow
def test_shipped_kernels_are_linked_and_not_compiled(tmp_path, library_with):
    library = library_with(built(tmp_path, SEVEN, SUM).objects)

    library.request([SEVEN, SUM]).result()

    assert library.statistics().shipped == 2
    assert library.statistics().compiled == 0
    assert not library.process.running
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(library.address(SEVEN))
    block = (ctypes.c_int64 * 2)()
    assert function(ctypes.addressof(block), ctypes.addressof(block)) == 7


def test_a_damaged_shipped_kernel_is_compiled_instead(tmp_path, library_with, caplog):
    library = library_with(built(tmp_path, SUM).objects, damage=-1)

    library.request([SUM]).result()

    assert library.address(SUM)
    assert (library.statistics().shipped, library.statistics().compiled) == (0, 1)
    assert "shipped object" in caplog.text


# The builder


@pytest.mark.slow
def test_the_builder_compiles_what_it_can_and_says_what_it_cannot(tmp_path):
    done: list[tuple[int, int]] = []
    kernels: list[Kernel] = [SEVEN, ALLOCATES, SUM, NONSENSE, LoopKernel(lambda x: 0, ("int32",), 0, 0)]

    result = Builder(host(), ObjectCache(None), lambda *counts: done.append(counts)).build(kernels)

    assert set(result.objects) == {source_of(kernel, host()).key for kernel in (SEVEN, SUM)}
    assert [kernel.split("(")[0] for kernel in result.failures if "allocates" in kernel] == ["allocates"]
    assert len(result.failures) == 3
    assert sorted(done) == [(number, 5) for number in range(1, 6)]


@pytest.mark.slow
def test_what_is_built_depends_on_neither_order_nor_the_number_of_children(tmp_path):
    kernels: list[Kernel] = [SEVEN, NESTED, SUM]
    one = Builder(host(), ObjectCache(None)).build(kernels, processes=1)
    other = Builder(host(), ObjectCache(None)).build(reversed(kernels), processes=2)

    assert one.objects == other.objects
    assert len(one.objects) == 3


# The usual kernels


def test_usual_kernels_can_be_written_and_read(tmp_path):
    usual_kernels.write([SUM, SEVEN, SUM], str(tmp_path / "list"))

    assert set(usual_kernels.read(str(tmp_path / "list"))) == {SUM, SEVEN}
    assert len((tmp_path / "list").read_text().splitlines()) == 2


USUAL = "the list is not what the sources need any more: run python -m bench.usual_kernels"


@pytest.mark.slow
def test_each_usual_kernel_has_a_text_for_each_class():
    kernels = usual_kernels.read()
    assert len(kernels) > 400

    for processor in PROCESSOR_CLASSES["x86_64"]:
        sources = [source_of(kernel, target_of_class(processor)) for kernel in kernels]
        assert {source.kind for source in sources} == {"loop", "template"}


def test_a_loop_of_the_usual_kernels_takes_the_arguments_it_is_given():
    for kernel in usual_kernels.read():
        if isinstance(kernel, LoopKernel):
            count = len(kernel.pointers) + kernel.ints + kernel.reals
            assert kernel.body.__code__.co_argcount == count, f"{usual_kernels.describe(kernel)}: {USUAL}"


@pytest.mark.slow
def test_the_installed_pack_is_what_the_sources_give(tmp_path):
    """A share of it, chosen at random; `python -m pytest` beside an installation without a pack has nothing to compare."""
    installed = pack.installed_pack()
    name = host_class()
    if installed is None or name is None or installed.versions != versions():
        pytest.skip("no pack was built here with these versions of numba and llvmlite")
    target, kernels = target_of_class(name), usual_kernels.read()
    if set(installed.places) != {source_of(kernel, target).key for kernel in kernels}:
        pytest.skip("the pack was built from other sources: pip install . builds it anew")

    result = Builder(target, ObjectCache(None)).build(random.sample(kernels, 12))

    assert not result.failures
    assert {key: installed.load(key) for key in result.objects} == result.objects
