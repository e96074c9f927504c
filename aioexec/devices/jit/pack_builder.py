"""Compiles the usual kernels ahead of time, into a pack for a class of processors.

Templates are compiled in this process, loops by as many compiler children as there are processors. What the cache on disk
holds for the same target is not compiled again.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable

from aioexec.data_classes import dataclass
from aioexec.devices.jit import pack, usual_kernels
from aioexec.devices.jit.cache import ObjectCache
from aioexec.devices.jit.library import SYMBOL, compiler_text, describe, key_of
from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.llvm import templates
from aioexec.devices.jit.llvm.routines import EXTERNAL_SYMBOLS
from aioexec.devices.jit.objects import ObjectCode, ObjectRefusedError, check_symbols
from aioexec.devices.jit.process import CompileError, CompilerProcess, CompilerUnavailableError, SourceError
from aioexec.devices.jit.source import request_for
from aioexec.devices.jit.target import OPTIMISATION, IrCompiler, IrError, Target, target_of_class
from aioexec.graph.kernels.kernel import ElementwiseKernel, Kernel, LoopKernel

Progress = Callable[[int, int], None]
"""Called with the number of kernels that are done, and of all."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a kernel.

    Attributes:
        kind: "loop" or "template".
        how: identifies what compiles the text.
    """

    kernel: Kernel
    kind: str
    text: str
    how: str

    @property
    def key(self) -> str:
        return pack.pack_key(self.kind, self.text, self.how)


@dataclass(slots=True)
class Build:
    """The result of compiling kernels.

    Attributes:
        objects: the compiled ones, by key in a pack.
        failures: why the others could not be compiled, by their description.
    """

    objects: dict[str, ObjectCode]
    failures: dict[str, str]


def source_of(kernel: Kernel, target: Target) -> Source:
    """The text of a kernel for a processor.

    Raises:
        SourceError: the body of a loop cannot be compiled elsewhere.
        BodyError: that of an elementwise kernel is not in the language.
    """
    if isinstance(kernel, LoopKernel):
        return Source(kernel, "loop", request_for(kernel), compiler_text())
    return Source(kernel, "template", templates.emit(kernel, SYMBOL, target.features), OPTIMISATION)


class Builder:
    """Compiles kernels for one target.

    Constant: `target`, `cache`. Changing, guarded by the lock: `_build`, the result so far; `_done`.
    """

    def __init__(self, target: Target, cache: ObjectCache, progress: Progress | None = None) -> None:
        self.target = target
        self.cache = cache
        self._progress = progress
        self._compiler = IrCompiler(target)
        self._allowed = Linker(EXTERNAL_SYMBOLS).allowed
        self._lock = threading.Lock()
        self._build = Build({}, {})
        self._done = self._count = 0

    def build(self, kernels: Iterable[Kernel], processes: int | None = None) -> Build:
        """Compile kernels with so many children, one for each processor by default.

        Raises:
            CompilerUnavailableError: no child can be started.
        """
        jobs: queue.SimpleQueue[Source] = queue.SimpleQueue()
        elementwise: list[Source] = []
        chosen = list(dict.fromkeys(kernels))
        self._count = len(chosen)
        for kernel in chosen:
            try:
                source = source_of(kernel, self.target)
            except (SourceError, templates.BodyError) as error:
                self._fail(kernel, error)
                continue
            if isinstance(kernel, ElementwiseKernel):
                elementwise.append(source)
            else:
                jobs.put(source)
        with contextlib.ExitStack() as stack:
            errors: list[CompilerUnavailableError] = []
            children = [CompilerProcess() for _ in range(min(processes or os.cpu_count() or 1, jobs.qsize()))]
            threads = [threading.Thread(target=self._serve, args=(child, jobs, errors)) for child in children]
            for child, thread in zip(children, threads, strict=True):
                child.target = self.target
                stack.callback(child.close)
                thread.start()
            for source in elementwise:
                self._keep(source, lambda text: self._compiler.compile_ir(SYMBOL, text))
            for thread in threads:
                thread.join()
            if errors:
                raise errors[0]
        return self._build

    def _serve(
        self,
        child: CompilerProcess,
        jobs: queue.SimpleQueue[Source],
        errors: list[CompilerUnavailableError],
    ) -> None:
        """Have one child compile loops until none is left; in a thread of its own."""
        while not errors:
            try:
                source = jobs.get_nowait()
            except queue.Empty:
                return
            try:
                self._keep(source, child.compile)
            except CompilerUnavailableError as error:
                errors.append(error)

    def _keep(self, source: Source, compile_text: Callable[[str], ObjectCode]) -> None:
        """Compile a kernel unless the cache has it."""
        key = key_of(source.kind, source.text, source.how, self.target)
        code = self.cache.load(key)
        try:
            if code is None:
                code = compile_text(source.text)
                self.cache.store(key, code)
            check_symbols(code, self._allowed)
        except (CompileError, IrError, ObjectRefusedError) as error:
            self._fail(source.kernel, error)
            return
        with self._lock:
            self._build.objects[source.key] = code
            self._note_progress()

    def _fail(self, kernel: Kernel, error: Exception) -> None:
        with self._lock:
            self._build.failures[describe(kernel)] = str(error)
            self._note_progress()

    def _note_progress(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._count)


def write_pack(processor: str, cache: ObjectCache, progress: Progress | None = None) -> dict[str, str]:
    """Write the pack of the usual kernels for a class of processors, unless there is one already.

    Returns:
        Why kernels could not be compiled, by their descriptions.

    Raises:
        CompilerUnavailableError: no compiler child can be started.
        OSError: the file cannot be written.
    """
    target, path = target_of_class(processor), pack.path_of(processor)
    kernels = usual_kernels.read()
    present = pack.open_pack(path)
    keys = {source_of(kernel, target).key for kernel in kernels}
    if present is not None and present.versions == target.versions and set(present.places) == keys:
        return {}
    build = Builder(target, cache, progress).build(kernels)
    os.makedirs(pack.DIRECTORY, exist_ok=True)
    aside = f"{path}.{os.getpid()}"
    with open(aside, "wb") as file:
        file.write(pack.encode_pack(build.objects, target.versions))
    os.replace(aside, path)
    return build.failures
