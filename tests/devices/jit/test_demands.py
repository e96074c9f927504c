"""The order in which kernels are compiled: by what the programs that need them would gain."""

import json
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from aioexec.devices.jit.cache import ObjectCache
from aioexec.devices.jit.library import Demand, KernelLibrary
from aioexec.devices.jit.objects import ObjectCode
from aioexec.devices.jit.process import CompileError, CompilerProcess
from aioexec.graph.kernels.kernel import LoopKernel


def answer(x) -> int:
    return 42


def other(x) -> int:
    return 43


ANSWER, OTHER = (LoopKernel(body, ("int32",), 0, 0) for body in (answer, other))


class Recorder(CompilerProcess):
    """A compiler that compiles nothing and records what it is to compile; `begin` lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = threading.Event()
        self.begun = threading.Event()
        self.requests: list[tuple[str, bool]] = []

    def compile(self, request: str, is_awaited: bool = True) -> ObjectCode:
        self.requests.append((json.loads(request)["functions"][0]["name"], is_awaited))
        self.begun.set()
        self.begin.wait()
        raise CompileError("not here")


def first(x) -> int:
    return 1


def second(x) -> int:
    return 2


FIRST, SECOND = (LoopKernel(body, ("int32",), 0, 0) for body in (first, second))


@pytest.fixture
def recorder(tmp_path: Path):
    """A library whose compiler has begun with ANSWER and waits."""
    process = Recorder()
    library = KernelLibrary(ObjectCache(tmp_path / "objects"), process=process)
    held = library.request([ANSWER])
    process.begun.wait()
    yield library, process
    process.begin.set()
    held.result()
    library.shutdown()


def demand(gain: int, *kernels: LoopKernel, is_awaited: bool = False) -> Demand:
    return Demand(dict.fromkeys(kernels, gain), is_awaited, lambda: None)


def order(library: KernelLibrary, process: Recorder, requests: list[Future[None]]) -> list[tuple[str, bool]]:
    """The loops in the order of their compilation, and whether they were said to be awaited."""
    library._compiler.join()  # all have been looked up
    process.begin.set()
    for request in requests:
        request.result()
    return process.requests[1:]


def test_kernels_of_programs_that_run_often_are_compiled_first(recorder):
    library, process = recorder
    rare, frequent = demand(3000, OTHER), demand(3000, FIRST)

    requests = [library.request([OTHER], rare), library.request([FIRST], frequent)]
    rare.runs, frequent.runs = 10, 100
    library.reorder()

    assert order(library, process, requests) == [("first", False), ("other", False)]


def test_kernels_that_save_more_are_compiled_first(recorder):
    library, process = recorder
    gains = Demand({FIRST: 1000, OTHER: 5000, SECOND: 3000}, False, lambda: None)

    requests = [library.request([FIRST, OTHER, SECOND], gains)]

    assert [name for name, _ in order(library, process, requests)] == ["other", "second", "first"]


def test_the_last_kernel_of_a_program_is_compiled_before_one_of_several(recorder):
    library, process = recorder

    requests = [
        library.request([FIRST, SECOND], demand(3000, FIRST, SECOND)),
        library.request([OTHER], demand(4000, OTHER)),
    ]

    assert next(iter(order(library, process, requests))) == ("other", False)


def test_kernels_that_a_step_waits_for_are_compiled_before_all_others(recorder):
    library, process = recorder

    requests = [
        library.request([FIRST], demand(10**9, FIRST)),
        library.request([OTHER], demand(1, OTHER, is_awaited=True)),
        library.request([SECOND]),  # as it is without a demand
    ]

    found = order(library, process, requests)
    assert set(found[:2]) == {("other", True), ("second", True)}
    assert found[2] == ("first", False)


def test_a_demand_is_told_of_each_kernel(recorder):
    library, process = recorder
    left: list[int] = []
    kernels = [FIRST, SECOND]
    told = Demand(
        dict.fromkeys(kernels, 1),
        False,
        lambda: left.append(sum(library.failed(kernel) is None for kernel in kernels)),
    )

    order(library, process, [library.request(kernels, told)])

    assert left == [1, 0]
