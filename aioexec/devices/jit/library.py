"""The compiled kernels of this process: compiled in the background, found by a dictionary lookup.

There are two compiler threads. The first reads shipped and cached objects, compiles IR templates and links; the second waits
for the compiler child, which compiles loops. Each thread exists only while it has work. A kernel is unknown, pending, available
or failed; the last two states are final: callers use the reference kernel in place of one that has failed.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace

from aioexec.data_classes import dataclass
from aioexec.devices.jit.cache import ABI_VERSION, DamagedEntryError, ObjectCache, default_directory, sha256
from aioexec.devices.jit.job_thread import JobThread
from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.llvm.routines import EXTERNAL_SYMBOLS
from aioexec.devices.jit.objects import ObjectCode, ObjectRefusedError
from aioexec.devices.jit.pack import KernelPack, installed_pack, pack_key
from aioexec.devices.jit.process import (
    CompileError,
    CompilerClosedError,
    CompilerProcess,
    CompilerUnavailableError,
    SourceError,
)
from aioexec.devices.jit.target import OPTIMISATION, IrCompiler, IrError, Target, host
from aioexec.graph.kernels.kernel import ElementwiseKernel, Kernel, LoopKernel

logger = logging.getLogger(__name__)

SYMBOL = "aioexec_kernel"
"""The function an IR template defines; each object is linked apart from the others."""

LOGGED_LENGTH = 300
"""Characters of a compiler's error message that are logged; `failed` returns the whole message."""

Emit = Callable[[ElementwiseKernel, str], str]
"""An elementwise kernel and a symbol to LLVM IR."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of kernels by outcome; `seconds` is the time both threads worked."""

    compiled: int = 0
    cached: int = 0
    shipped: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Demand:
    """The value of some kernels to the program that needs them; decides which kernels are compiled first.

    Attributes:
        gains: nanoseconds that each kernel would save in a run of the program.
        is_awaited: a step waits for the program.
        on_settled: called whenever one of the kernels has become available or has failed; on a compiler thread, must not raise.
        runs: how often the program was run without its kernels; the requester counts.
    """

    gains: Mapping[Kernel, int]
    is_awaited: bool
    on_settled: Callable[[], None]
    runs: int = 0


@dataclass(slots=True)
class Batch:
    """One `request`: its future is done when `remaining` kernels are 0. `total` are the gains of all its kernels."""

    future: Future[None]
    remaining: int
    demand: Demand | None
    total: int

    def value_of(self, kernel: Kernel) -> int:
        """Nanoseconds that a kernel would have saved so far: its own, and a share of those of the complete program."""
        if self.demand is None:
            return 0
        gain = self.demand.gains.get(kernel, 0) + self.total // max(self.remaining, 1)
        return (1 + self.demand.runs) * gain


@dataclass(frozen=True, slots=True)
class LoopJob:
    """A loop for the child to compile, and the key of its object in the cache."""

    kernel: LoopKernel
    key: str
    request: str


def emit(kernel: ElementwiseKernel, symbol: str) -> str:
    """The IR of an elementwise kernel. The compiler thread imports the emitter here: that takes as long as a dozen modules."""
    from aioexec.devices.jit.llvm import templates

    return templates.emit(kernel, symbol)


def request_for(kernel: LoopKernel) -> str:
    """The request to the child for a loop. The compiler thread imports the module that reads the loop's source, as above."""
    from aioexec.devices.jit import source

    return source.request_for(kernel)


def describe(kernel: Kernel) -> str:
    """A kernel in a log line."""
    if isinstance(kernel, LoopKernel):
        return f"{kernel.body.__qualname__}({', '.join(kernel.pointers)})"
    return f"{kernel.body!r} over {', '.join(dtype for _, dtype in kernel.inputs + kernel.outputs)}"


@functools.cache
def compiler_text() -> str:
    """The part of cache keys that represents the loop compiler itself."""
    texts = []
    for name in ("loops.py", "fragments.py", "tiles.py", "gemm.py", "handover.py", "vectors.py"):
        with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
            texts.append(file.read())
    return "".join(texts)


def key_of(kind: str, text: str, how: str, target: Target) -> str:
    """The name of an object in the cache: a digest of everything that decides its bytes."""
    parts = (ABI_VERSION, kind, text, how, target.cpu, target.features, target.versions)
    return sha256(json.dumps(parts).encode("utf-8")).hex()


class KernelLibrary:
    """Compiled kernels by description. Thread-safe.

    Attributes:
        cache: objects kept on disk.
        process: the child that compiles loops.
    """

    def __init__(
        self,
        cache: ObjectCache,
        emit: Emit = emit,
        process: CompilerProcess | None = None,
        find_pack: Callable[[], KernelPack | None] = lambda: None,
    ) -> None:
        self.cache = cache
        self.process = process if process is not None else CompilerProcess()
        self._emit = emit
        self._find_pack = find_pack  # called by the first compiler thread, since it loads LLVM
        self._linker = Linker(EXTERNAL_SYMBOLS)
        self._ir_compiler: IrCompiler | None = None  # made by the first compiler thread
        self._addresses: dict[Kernel, int] = {}  # available; only grows
        self._failures: dict[Kernel, str] = {}  # failed, and why; only grows
        self._unavailable = ""  # why no loop can be compiled; "" while it seems possible
        self._lock = threading.Lock()  # guards what follows, and writes to what precedes
        self._pending: dict[Kernel, list[Batch]] = {}  # being compiled, and the batches that wait
        self._statistics = Statistics()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pending = {}
        self._compiler: JobThread[Kernel] = JobThread("aioexec-compile", self._compile, self._priority)
        self._loop_compiler: JobThread[LoopJob] = JobThread(
            "aioexec-compile-loops", self._compile_loop, lambda job: self._priority(job.kernel)
        )

    def address(self, kernel: Kernel) -> int:
        """The address of a kernel's code; 0 while there is none."""
        return self._addresses.get(kernel, 0)

    def failed(self, kernel: Kernel) -> str | None:
        """The reason why a kernel has failed; None if it has not."""
        return self._failures.get(kernel)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Those that are available."""
        return tuple(self._addresses)

    @property
    def waiting(self) -> tuple[Kernel, ...]:
        """Those that are being compiled."""
        return tuple(self._pending)

    @property
    def pending(self) -> int:
        """How many kernels are being compiled."""
        return len(self._pending)

    def statistics(self) -> Statistics:
        return self._statistics

    def request(self, kernels: Iterable[Kernel], demand: Demand | None = None) -> Future[None]:
        """Have kernels compiled: those that a step or a caller waits for first, then those that would save the most time.

        Args:
            demand: what they are worth; None: the caller waits for them.

        Returns:
            A future that is done when each of them is available or has failed; it never holds an exception,
            and cannot be cancelled: others may wait for the same kernels. `shutdown` completes it early.
        """
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        fresh: list[Kernel] = []
        self.process.reap()
        with self._lock:
            missing = [
                kernel
                for kernel in dict.fromkeys(kernels)
                if kernel not in self._addresses and kernel not in self._failures
            ]
            total = 0 if demand is None else sum(demand.gains.get(kernel, 0) for kernel in missing)
            batch = Batch(future, len(missing), demand, total)
            for kernel in missing:
                waiting = self._pending.get(kernel)
                if waiting is None:
                    waiting = self._pending[kernel] = []
                    fresh.append(kernel)
                waiting.append(batch)
        for kernel in fresh:
            self._compiler.put(kernel)
        if not missing:
            future.set_result(None)
        return future

    def reorder(self) -> None:
        """Take account of the runs that were counted in demands; cheap."""
        self._compiler.reorder()
        self._loop_compiler.reorder()

    def _is_awaited(self, kernel: Kernel) -> bool:
        """Whether a step, or the caller of `request`, waits for a kernel."""
        batches = self._pending.get(kernel, ())
        return any(batch.demand is None or batch.demand.is_awaited for batch in batches)

    def _priority(self, kernel: Kernel) -> tuple[bool, bool, int]:
        """Order of compilation. Loops come first on the thread that only looks them up: the child is to begin soon."""
        value = sum(batch.value_of(kernel) for batch in self._pending.get(kernel, ()))
        return self._is_awaited(kernel), isinstance(kernel, LoopKernel), value

    def drain_and_join(self, timeout: float = 60.0) -> None:
        """End both threads after the kernels they have begun; the child stays.

        What was pending becomes unknown again, unless it was begun; the rest stays.
        """
        self._compiler.drain()
        self._loop_compiler.drain()
        waiting = self._take_waiting()
        self._compiler.join(timeout)
        self._loop_compiler.join(timeout)
        complete(waiting)

    def shutdown(self, timeout: float = 10.0) -> None:
        """End both threads and the child soon. What was pending becomes unknown again; the rest stays."""
        self._compiler.drain()
        self._loop_compiler.drain()
        waiting = self._take_waiting()
        self.process.close()
        self._compiler.join(timeout)
        self._loop_compiler.join(timeout)
        self.process.close()  # a job begun before may have started another
        complete(waiting)

    def _take_waiting(self) -> list[Batch]:
        """Make pending kernels unknown, and return the batches that wait for them."""
        with self._lock:
            waiting = {id(batch): batch for batches in self._pending.values() for batch in batches}
            self._pending.clear()
        return list(waiting.values())

    def forget_threads(self) -> None:
        """Reset the state in a forked process, which has neither threads nor child; compiled kernels stay."""
        busy = self._compiler.busy or self._loop_compiler.busy
        self.process.forget()
        self._begin()
        if busy:  # a lock inside LLVM may have been held, by a thread that is not here to release it
            self._compiler = JobThread("aioexec-compile", self._refuse)

    # On the compiler threads

    def _refuse(self, kernel: Kernel) -> None:
        self._fail(kernel, "the process was forked while kernels were compiled")

    def _compile(self, kernel: Kernel) -> None:
        """First thread: from the cache, or from IR; a loop that is not in the cache goes to the second thread."""
        if kernel not in self._pending:
            return
        started = time.perf_counter()
        try:
            if isinstance(kernel, LoopKernel):
                self._find_loop(kernel)
            else:
                self._compile_template(kernel)
        except (SourceError, IrError, ObjectRefusedError) as error:
            self._fail(kernel, str(error))
        except Exception as error:  # one kernel must not end the thread
            logger.exception("kernel %s: unexpected failure", describe(kernel))
            self._fail(kernel, f"{type(error).__name__}: {error}")
        self._count(seconds=time.perf_counter() - started)

    def _find_loop(self, kernel: LoopKernel) -> None:
        request = request_for(kernel)
        key = self._link_stored(kernel, "loop", request, compiler_text())
        if key and self._unavailable:
            self._settle(kernel, failure=self._unavailable)
        elif key:
            self._loop_compiler.put(LoopJob(kernel, key, request))

    def _compile_template(self, kernel: ElementwiseKernel) -> None:
        text = self._emit(kernel, SYMBOL)
        key = self._link_stored(kernel, "template", text, OPTIMISATION)
        if key:
            if self._ir_compiler is None:
                self._ir_compiler = IrCompiler(host())
            self._link_new(kernel, key, self._ir_compiler.compile_ir(SYMBOL, text))

    def _compile_loop(self, job: LoopJob) -> None:
        """Second thread: have the child compile one loop."""
        if job.kernel not in self._pending:
            return
        started = time.perf_counter()
        try:
            if self._unavailable:
                raise CompilerUnavailableError(self._unavailable)
            self.process.target = host()
            self._link_new(
                job.kernel, job.key, self.process.compile(job.request, self._is_awaited(job.kernel))
            )
        except CompilerClosedError:
            pass  # `shutdown`: no batch waits, and a later request makes a new job
        except CompilerUnavailableError as error:
            self._give_up(job.kernel, str(error))
        except (CompileError, ObjectRefusedError) as error:
            self._fail(job.kernel, str(error))
        except Exception as error:  # as above
            logger.exception("kernel %s: unexpected failure", describe(job.kernel))
            self._fail(job.kernel, f"{type(error).__name__}: {error}")
        self._count(seconds=time.perf_counter() - started)

    def _link_stored(self, kernel: Kernel, kind: str, text: str, how: str) -> str:
        """Link a kernel that is in the pack or in the cache; if it is in neither, return its key in the cache, else ""."""
        pack, key = self._find_pack(), key_of(kind, text, how, host())
        if pack is not None and self._link_from(pack.load, pack_key(kind, text, how), kernel, "shipped"):
            return ""
        return "" if self._link_from(self.cache.load, key, kernel, "cached") else key

    def _link_from(
        self, load: Callable[[str], ObjectCode | None], key: str, kernel: Kernel, origin: str
    ) -> bool:
        """Link a stored object, if it exists and can be used."""
        try:
            code = load(key)
            if code is None:
                return False
            address = self._linker.link(code)
        except (OSError, DamagedEntryError, ObjectRefusedError) as error:
            logger.warning("kernel %s: %s object %s not used: %s", describe(kernel), origin, key, error)
            return False
        self._count(**{origin: 1})
        self._settle(kernel, address=address)
        return True

    def _link_new(self, kernel: Kernel, key: str, code: ObjectCode) -> None:
        address = self._linker.link(code)
        self.cache.store(key, code)
        self._count(compiled=1)
        self._settle(kernel, address=address)

    def _give_up(self, kernel: Kernel, reason: str) -> None:
        """Record that there is no child: logged once; then every loop not in the cache fails."""
        if kernel in self._pending and not self._unavailable:
            self._unavailable = reason
            logger.warning("loop kernels cannot be compiled, NumPy computes instead: %s", reason)
        self._settle(kernel, failure=reason)

    def _fail(self, kernel: Kernel, reason: str) -> None:
        if kernel in self._pending:
            short = " ".join(reason.split())[:LOGGED_LENGTH]
            logger.warning("kernel %s: not compiled, NumPy computes instead: %s", describe(kernel), short)
        self._settle(kernel, failure=reason)

    def _settle(self, kernel: Kernel, *, address: int = 0, failure: str = "") -> None:
        """Record the result of a kernel, and complete the batches that wait. A failure during `shutdown` is not recorded."""
        done: list[Batch] = []
        with self._lock:
            waiting = self._pending.pop(kernel, None)
            if address:
                self._addresses[kernel] = address
            elif waiting is not None:
                self._failures[kernel] = failure
                self._statistics = replace(self._statistics, failed=self._statistics.failed + 1)
            for batch in waiting or ():
                batch.remaining -= 1
                if batch.remaining == 0:
                    done.append(batch)
        for batch in waiting or ():
            if batch.demand is not None:
                batch.demand.on_settled()
        for batch in done:
            batch.future.set_result(None)

    def _count(self, *, compiled: int = 0, cached: int = 0, shipped: int = 0, seconds: float = 0.0) -> None:
        with self._lock:
            now = self._statistics
            self._statistics = replace(
                now,
                compiled=now.compiled + compiled,
                cached=now.cached + cached,
                shipped=now.shipped + shipped,
                seconds=now.seconds + seconds,
            )


def complete(batches: Iterable[Batch]) -> None:
    for batch in batches:
        if not batch.future.done():
            batch.future.set_result(None)


PROCESS_LIBRARY: KernelLibrary | None = None
MAKING = threading.Lock()


def library() -> KernelLibrary:
    """The library of this process, made by the first call."""
    global PROCESS_LIBRARY
    with MAKING:
        if PROCESS_LIBRARY is None:
            PROCESS_LIBRARY = KernelLibrary(ObjectCache(default_directory()), find_pack=installed_pack)
            atexit.register(PROCESS_LIBRARY.shutdown)
            os.register_at_fork(after_in_child=PROCESS_LIBRARY.forget_threads)
        return PROCESS_LIBRARY
