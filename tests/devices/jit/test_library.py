"""The kernel library: kernels are compiled in the background, found by a lookup, and nothing leaks."""

import asyncio
import ctypes
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from aioexec.devices.jit import blas, linker, process as process_module, target
from aioexec.devices.jit.cache import ObjectCache
from aioexec.devices.jit.child import NICENESS, run_at_idle_priority
from aioexec.devices.jit.library import Demand, KernelLibrary, key_of
from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.objects import ObjectCode, ObjectRefusedError, check_symbols, read_symbols
from aioexec.devices.jit.process import CompilerProcess
from aioexec.graph.kernels.kernel import ElementwiseKernel, LoopKernel


def answer(x) -> int:
    return 42


def other(x) -> int:
    return 43


ANSWER = LoopKernel(answer, ("int32",), 0, 0)
OTHER = LoopKernel(other, ("int32",), 0, 0)
NOT_PYTHON = [sys.executable, "-I", "-c", "raise SystemExit(1)"]


def emit(kernel: ElementwiseKernel, symbol: str) -> str:
    """Stand-in for the templates: the body is the status, or a call, or broken."""
    if kernel.body == "raise":
        raise RuntimeError("emit is broken")
    if kernel.body.isidentifier():
        call = f"declare i64 @{kernel.body}()"
        head = f"define i64 @{symbol}(ptr %block, ptr %frame)"
        return f"{call}\n{head} {{\n  %s = call i64 @{kernel.body}()\n  ret i64 %s\n}}"
    return f"define i64 @{symbol}(ptr %block, ptr %frame) {{\n  ret i64 {kernel.body}\n}}"


def template(body: str) -> ElementwiseKernel:
    return ElementwiseKernel(body, (("x", "float32"),), (("y", "float32"),), "vv")


@pytest.fixture
def make(tmp_path: Path):
    """Make libraries over one cache folder; shut down at the end."""
    made = []

    def make(command: list[str] | None = None) -> KernelLibrary:
        made.append(KernelLibrary(ObjectCache(tmp_path / "objects"), emit, process=CompilerProcess(command)))
        return made[-1]

    yield make
    for library in made:
        library.shutdown()


def status(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)(None, None)


def get(library: KernelLibrary, kernel) -> int:
    library.request([kernel]).result()
    return library.address(kernel)


def test_a_kernel_has_no_address_before_it_is_asked_for(make):
    library = make()

    assert library.address(template("7")) == 0
    assert library.failed(template("7")) is None


def test_a_template_is_compiled_once_and_then_found(make):
    library = make()

    address = get(library, template("7"))
    assert status(address) == 7
    assert get(library, template("7")) == address
    assert library.statistics().compiled == 1


def test_a_request_is_done_when_all_its_kernels_are(make):
    library = make()
    kernels = [template(str(number)) for number in range(20)]

    library.request(kernels * 2).result()
    assert [status(library.address(kernel)) for kernel in kernels] == list(range(20))
    assert library.pending == 0


def test_a_request_for_nothing_is_done_at_once(make):
    assert make().request([]).done()


def test_a_second_library_takes_objects_from_the_cache(make):
    get(make(), template("7"))
    library = make()

    assert status(get(library, template("7"))) == 7
    assert (library.statistics().compiled, library.statistics().cached) == (0, 1)


@pytest.mark.slow
def test_cached_loops_need_no_child(make):
    first = make()
    get(first, ANSWER)
    library = make(["/nonexistent"])

    assert first.process.running
    assert library.request([ANSWER]).result() is None
    assert library.address(ANSWER)
    assert not library.process.running


def test_text_llvm_refuses_fails_with_its_message(make, caplog):
    library = make()

    assert get(library, template("1 2")) == 0
    assert "expected instruction" in library.failed(template("1 2"))
    assert caplog.text.count("NumPy computes instead") == 1
    library.request([template("1 2")]).result()
    assert caplog.text.count("NumPy computes instead") == 1
    assert library.statistics().failed == 1


def test_an_error_while_emitting_fails_that_kernel_only(make):
    library = make()

    library.request([template("raise"), template("7")]).result()
    assert library.failed(template("raise")) == "RuntimeError: emit is broken"
    assert library.address(template("7"))


def test_an_object_that_refers_to_the_interpreter_is_refused(make):
    library = make()

    assert get(library, template("PyErr_Occurred")) == 0
    assert library.failed(template("PyErr_Occurred")) == (
        "object file refers to PyErr_Occurred, which no kernel may call"
    )


def test_a_name_on_the_list_that_this_process_lacks_is_refused():
    code = target.IrCompiler(target.host()).compile_ir("k", emit(template("roundeven"), "k"))

    with pytest.raises(ObjectRefusedError, match="needs roundeven, which this process does not have"):
        Linker(resolve=lambda name: 0).link(code)


def test_names_the_templates_list_are_linked(make):
    code = target.IrCompiler(target.host()).compile_ir("k", emit(template("getpid"), "k"))

    assert status(Linker({"getpid"}).link(code)) == os.getpid()


def test_an_object_is_read_completely_or_refused():
    code = target.IrCompiler(target.host()).compile_ir("k", emit(template("getpid"), "k"))

    assert read_symbols(code.image).undefined == {"getpid"}
    assert "k" in read_symbols(code.image).defined
    for damaged in (b"", b"MZ", code.image[:60], code.image[:200], code.image[:-100]):
        with pytest.raises(ObjectRefusedError):
            read_symbols(damaged)
    beyond = bytearray(code.image)
    beyond[40:48] = b"\xff" * 8  # where the section headers are
    with pytest.raises(ObjectRefusedError, match="damaged"):
        read_symbols(bytes(beyond))
    with pytest.raises(ObjectRefusedError, match="define 'missing'"):
        check_symbols(ObjectCode("missing", code.image), {"getpid"})


def test_the_key_of_an_object_depends_on_everything_that_decides_it():
    here = target.host()
    keys = {
        key_of("template", "a", "b", here),
        key_of("loop", "a", "b", here),
        key_of("loop", "ab", "", here),
        key_of("loop", "", "ab", here),
        key_of("loop", "a", "b", replace(here, cpu="other")),
        key_of("loop", "a", "b", replace(here, features="")),
        key_of("loop", "a", "b", replace(here, versions=())),
    }

    assert len(keys) == 7


def test_mathematics_and_memory_functions_are_found_in_this_process():
    assert linker.library_address("exp")
    assert linker.library_address("memcpy")
    assert linker.library_address("no_such_function_anywhere") == 0


@pytest.mark.parametrize("command", [["/nonexistent/python"], NOT_PYTHON])
def test_without_a_child_loops_fail_and_that_is_said_once(make, command, caplog):
    library = make(command)

    library.request([ANSWER, OTHER, template("7")]).result()
    assert library.failed(ANSWER) == library.failed(OTHER) != ""
    assert library.address(template("7"))
    assert caplog.text.count("NumPy computes instead") == 1
    assert not library.process.running


@pytest.mark.slow
def test_a_child_that_died_is_replaced(make):
    library = make()
    get(library, ANSWER)
    library.process._child.process.kill()

    assert status(get(library, OTHER)) == 43


@pytest.mark.slow
@pytest.mark.parametrize(("deaths", "is_compiled"), [(1, True), (2, False)])
def test_a_child_that_is_killed_while_it_compiles_is_replaced_once(make, monkeypatch, deaths, is_compiled):
    exchange, seen = process_module.exchange, []

    def kill_and_exchange(connection, request, is_awaited):
        seen.append(library.process._child.process)
        if len(seen) <= deaths:
            seen[-1].kill()
            seen[-1].wait()
        return exchange(connection, request, is_awaited)

    monkeypatch.setattr(process_module, "exchange", kill_and_exchange)
    library = make()

    library.request([OTHER]).result()

    assert (library.failed(OTHER) is None) == is_compiled
    assert len(seen) == 2


@pytest.mark.slow
def test_a_child_that_died_is_reaped_by_the_next_request(make):
    library = make()
    get(library, ANSWER)
    child = library.process._child.process
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and still ours to reap

    library.request([])
    assert not library.process.running


@pytest.mark.slow
def test_the_child_ends_when_its_parent_is_gone(make):
    library = make()
    get(library, ANSWER)
    child = library.process._child
    child.connection.close()

    assert child.process.wait() == 0


@pytest.mark.slow
def test_a_child_without_time_at_idle_priority_is_replaced_by_one_of_low_priority(make, monkeypatch):
    monkeypatch.setattr(process_module, "STARVED_SECONDS", 1e-6)
    library = make()

    library.request([ANSWER], Demand({ANSWER: 1}, False, lambda: None)).result()
    child = library.process.descriptor
    library.request([OTHER], Demand({OTHER: 1}, False, lambda: None)).result()

    assert status(library.address(ANSWER)) == 42
    assert status(library.address(OTHER)) == 43
    assert library.process.descriptor == child


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="there is no idle priority")
def test_what_no_step_waits_for_runs_at_idle_priority_and_the_rest_does_not():
    found: list[int] = []

    run_at_idle_priority(lambda: found.append(os.sched_getscheduler(0)))

    assert found == [os.SCHED_IDLE]
    assert os.sched_getscheduler(0) != os.SCHED_IDLE


@pytest.mark.slow
def test_the_child_runs_at_low_priority(make):
    library = make()
    get(library, ANSWER)

    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, library.process._child.process.pid) == min(ours + NICENESS, 19)


def test_shutdown_completes_what_was_pending_and_leaves_nothing(make):
    library = make()
    future = library.request([ANSWER, OTHER])

    library.shutdown()
    assert future.done()
    assert not library.process.running
    assert library.pending == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("aioexec-compile")]


@pytest.mark.slow
def test_at_rest_there_are_no_threads_and_the_child_waits_for_more(make):
    library = make()
    get(library, ANSWER)
    child = library.process.descriptor
    future = library.request([OTHER])

    library.drain_and_join()
    assert future.done()
    assert library.pending == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("aioexec-compile")]
    assert library.process.descriptor == child
    assert status(get(library, OTHER)) == 43


@pytest.mark.slow
def test_after_shutdown_kernels_can_be_asked_for_again(make):
    library = make()
    library.request([ANSWER])
    library.shutdown()

    assert status(get(library, ANSWER)) == 42


async def test_a_coroutine_can_wait_for_kernels(make):
    library = make()

    async with asyncio.timeout(30):
        await asyncio.wrap_future(library.request([template("7")]))
    assert library.address(template("7"))


async def test_cancelling_one_who_waits_does_not_cancel_the_others(make):
    library = make()
    first = asyncio.wrap_future(library.request([template("7")]))
    second = asyncio.wrap_future(library.request([template("7")]))

    first.cancel()
    await second
    assert library.address(template("7"))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_keeps_kernels_and_compiles_its_own(make):
    library = make()
    get(library, template("7"))

    def check() -> None:
        library.forget_threads()
        kept = status(library.address(template("7"))) == 7
        sys.exit(0 if kept and status(get(library, template("8"))) == 8 else 1)

    process = multiprocessing.get_context("fork").Process(target=check)
    process.start()
    process.join()
    assert process.exitcode == 0
    process.close()


@pytest.mark.slow
def test_a_program_may_end_while_kernels_are_compiled(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys
            from aioexec.devices.jit.library import library
            from aioexec.graph.kernels.kernel import ElementwiseKernel, LoopKernel

            def body(x) -> int:
                return 0

            def add(dtype):
                return ElementwiseKernel("z = x + y", (("x", dtype), ("y", dtype)), (("z", dtype),), "vvv")

            assert library() is library()
            assert "llvmlite" not in sys.modules
            library().request([add("float32")]).result()
            assert library().address(add("float32"))
            child = os.fork()
            if child == 0:
                library().request([add("int32")]).result()
                assert library().address(add("float32"))
                assert library().address(add("int32"))
                os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            library().request([LoopKernel(body, (dtype,), 0, 0) for dtype in ("int32", "int64", "float32")])
            assert "numba" not in sys.modules
            print("end")
            """
        )
    )

    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        check=False,
        text=True,
        cwd=Path(__file__).parents[3],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "AIOEXEC_CACHE_DIR": str(tmp_path / "c"),
        },
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not blas.available(), reason="NumPy without the OpenBLAS of its wheels")
def test_the_number_of_blas_threads_is_set_and_given_back():
    before = blas.set_threads(1)
    assert before is not None
    assert blas.set_threads(2) == 1
    assert blas.set_threads(before) == 2


def test_without_the_bundled_library_there_is_no_gemm(monkeypatch):
    monkeypatch.setattr(blas, "candidates", lambda: iter(["/nonexistent.so"]))
    blas.find.cache_clear()
    try:
        assert not blas.available()
        assert blas.symbols() == {}
        assert blas.set_threads(1) is None
    finally:
        blas.find.cache_clear()
