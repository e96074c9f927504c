"""The bound on a session's arenas on one device (`ConfigProto.aioexec.arena_bytes`).

The arenas of active runs and of idle frames together stay within the bound. For a new arena idle frames are dropped, the least
recently used first; if that is not enough, the run waits in FIFO order until others end. A run acquires its arena after its
leases and, once it holds it, waits only for its worker: so there is no deadlock, and each run is admitted in the end.

Sessions without a bound have the limit of `arena_limit`. The event loop's thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from aioexec.devices.jit.walker import Walker
from aioexec.devices.threads.workers import Workers
from aioexec.errors import OpError, ResourceExhaustedError
from aioexec.execution.programs.arena_limit import ArenaLimit, ArenaOwner, NoRoomError
from aioexec.execution.programs.frame import Frame
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.trimming import TrimmedProgram, Trimmer
from aioexec.graph.kernels.kernel import Kernel
from aioexec.planning.instruction import locate
from aioexec.planning.layout.variant import Variant


class Arenas(ArenaLimit):
    """Admits the arenas of one device, those of idle frames included.

    Changing: `kept`, bytes of idle frames; `_idle`, these frames with the pools they belong to, least recently used first.
    """

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self.kept = 0
        self._idle: OrderedDict[Frame, tuple[list[Frame], int]] = OrderedDict()

    def drop(self, owner: ArenaOwner) -> None:
        """Drop the idle frames of a program that was not used for long."""
        while owner.frames:
            self.kept -= self._idle.pop(owner.frames.pop())[1]

    def take(self, owner: ArenaOwner) -> Frame | None:
        if not self.admits(owner):
            raise NoRoomError
        return self._reserve(owner)

    def _reserve(self, owner: ArenaOwner) -> Frame | None:
        frame = super()._reserve(owner)
        if frame is not None:
            self.kept -= self._idle.pop(frame)[1]
        while self.used + self.kept > self.bound:
            other, (pool, nbytes) = self._idle.popitem(last=False)
            pool.remove(other)
            self.kept -= nbytes
        return frame

    def _keep(self, owner: ArenaOwner, frame: Frame) -> None:
        super()._keep(owner, frame)
        if owner.frames and owner.frames[-1] is frame:
            self.kept += owner.arena_bytes
            self._idle[frame] = owner.frames, owner.arena_bytes

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self.used + self.kept <= self.bound
        assert self.kept == sum(nbytes for _, nbytes in self._idle.values())
        assert all(frame in pool for frame, (pool, _) in self._idle.items())


class BoundedProgram(TrimmedProgram):
    """A program whose arenas count against a bound."""

    def __init__(
        self,
        variant: Variant,
        walker: Walker,
        address: Callable[[Kernel], int],
        device: str,
        workers: Workers,
        trimmer: Trimmer,
        arenas: Arenas,
    ) -> None:
        super().__init__(variant, walker, address, device, workers, trimmer, arenas)
        self.arenas = arenas
        self.at_hand = ()  # all frames are taken from the arenas, which record the order of use

    def lease(self) -> Frame:
        """A frame for one run, which must be released.

        Raises:
            NoRoomError: the run must wait for its frame.
            ResourceExhaustedError: its arena is larger than the bound.
        """
        return self.lease_for_worker()

    def lease_for_worker(self) -> Frame:
        self._check_bound()
        return super().lease_for_worker()

    async def lease_in_turn(self) -> Frame:
        self._check_bound()
        return await super().lease_in_turn()

    def trim(self) -> None:
        self.arenas.drop(self)

    def _check_bound(self) -> None:
        if self.arena_bytes > self.arenas.bound:
            raise _error_naming_largest(
                self,
                f"OOM when allocating an arena of {self.arena_bytes} bytes on {self.device}: "
                f"arena_bytes is {self.arenas.bound}, of which {self.arenas.used} are in use",
            )


def _error_naming_largest(program: Program, message: str) -> OpError:
    """The error of a program for which there is no memory; it names the node with the largest result."""
    variant = program.variant
    sizes = {value: spec.nbytes for value, spec in variant.specs.items()}
    largest = max(sizes, key=lambda value: sizes[value], default=None)
    for instruction in variant.instructions:
        if largest in instruction.outputs:
            message = f"{message}; the largest value, of {sizes[largest]} bytes, is that of {instruction.node.name!r}"
            return locate(ResourceExhaustedError(message), instruction, program.device)
    return ResourceExhaustedError(message)


def no_memory(program: Program) -> OpError:
    """The error of a run for whose values or results the system has no memory."""
    variant = program.variant
    return _error_naming_largest(
        program,
        f"OOM on {program.device}: the step needs {variant.arena_bytes} bytes for values between its "
        f"{len(variant.item.instructions)} nodes and {variant.output_bytes} for the results",
    )
