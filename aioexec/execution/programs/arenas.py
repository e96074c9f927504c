"""The bound on a session's arenas on one device (`ConfigProto.aioexec.arena_bytes`).

The arenas of runs under way and those of idle frames together stay within the bound. For a new one idle frames are given up,
longest idle first; where that is not enough the run waits its turn, first come first served, until others are over. A run takes
its arena after its leases and, until it is over, waits for nothing but its worker: so everybody's turn comes.

Sessions without a bound have the limit of `arena_limit`. Everything here happens on the event loop.
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
    """Who may hold an arena on one device, idle frames included.

    Changing: `kept`, bytes of idle frames, which are in `_idle` with the pool they lie in, longest idle first.
    """

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self.kept = 0
        self._idle: OrderedDict[Frame, tuple[list[Frame], int]] = OrderedDict()

    def drop(self, owner: ArenaOwner) -> None:
        """Nobody has used this one for long: its idle frames are given up."""
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
        self.at_hand = ()  # the arenas know which of them was used last

    def lease(self) -> Frame:
        """A frame for one run, which must be released.

        Raises:
            NoRoomError: the run must wait for its frame.
            ResourceExhaustedError: it would wait for ever.
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
            raise out_of_memory(
                self,
                f"OOM when allocating an arena of {self.arena_bytes} bytes on {self.device}: "
                f"arena_bytes is {self.arenas.bound}, of which {self.arenas.used} are in use",
            )


def out_of_memory(program: Program, told: str) -> OpError:
    """The error of a program without memory; of its nodes it names the one whose result takes most."""
    variant = program.variant
    sizes = {value: spec.nbytes for value, spec in variant.specs.items()}
    largest = max(sizes, key=lambda value: sizes[value], default=None)
    for instruction in variant.instructions:
        if largest in instruction.outputs:
            told = (
                f"{told}; the largest value, of {sizes[largest]} bytes, is that of {instruction.node.name!r}"
            )
            return locate(ResourceExhaustedError(told), instruction, program.device)
    return ResourceExhaustedError(told)
