"""The bound on a session's arenas on one device (`ConfigProto.aioexec.arena_bytes`).

The arenas of runs under way and those of idle frames together stay within the bound. For a new one idle frames are given up,
longest idle first; where that is not enough the run waits its turn, first come first served, until others are over. A run takes
its arena after its leases and, until it is over, waits for nothing but its worker: so everybody's turn comes.

Without a bound programs are plain ones, which know nothing of this. Everything here happens on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from aioexec.devices.jit.walker import Walker
from aioexec.devices.workers import Workers
from aioexec.errors import OpError, ResourceExhaustedError
from aioexec.execution.frame import Frame
from aioexec.execution.program import IDLE_FRAMES, Program
from aioexec.execution.trimming import TrimmedProgram, Trimmer
from aioexec.graph.kernel import Kernel
from aioexec.planning.instruction import locate
from aioexec.planning.variant import Variant


class NoRoomError(Exception):
    """There is no room for another arena now; nothing was run."""


class ArenaOwner(Protocol):
    """A program, as far as its arenas go: they are `arena_bytes` each; `frames` are the idle ones."""

    arena_bytes: int
    frames: list[Frame]


class Arenas:
    """Who may hold an arena on one device.

    Constant: `bound`, bytes. Changing: `used`, bytes of runs under way; `kept`, bytes of idle frames, which are in `_idle` with
    the pool they lie in, longest idle first; `_waiting`, runs without an arena, in the order they came, each with the future of
    its turn.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.used = 0
        self.kept = 0
        self._idle: OrderedDict[Frame, tuple[list[Frame], int]] = OrderedDict()
        self._waiting: deque[tuple[ArenaOwner, asyncio.Future[Frame | None]]] = deque()

    def take(self, owner: ArenaOwner) -> Frame | None:
        """Give a run an arena: a frame that lay idle, or None, leave to make one.

        Raises:
            NoRoomError: it must wait.
        """
        if self._waiting or not self._has_room_for(owner):
            raise NoRoomError
        return self._reserve(owner)

    def wait(self, owner: ArenaOwner, turn: asyncio.Future[Frame | None]) -> None:
        """Let a run wait for what `take` would have given: `turn` is done then."""
        self._waiting.append((owner, turn))
        self._let_in()

    def give_up(self, owner: ArenaOwner, turn: asyncio.Future[Frame | None]) -> None:
        """A run that waited is not to be, though it may have got its arena just now."""
        if (owner, turn) in self._waiting:
            self._waiting.remove((owner, turn))
            self._let_in()
        elif not turn.cancelled():
            self.give_back(owner, turn.result())

    def give_back(self, owner: ArenaOwner, frame: Frame | None) -> None:
        """A run is over: its frame lies idle from now on; None, or a spoilt one: the memory is free."""
        self.used -= owner.arena_bytes
        if frame is not None and not frame.spoilt and len(owner.frames) < IDLE_FRAMES:
            self.kept += owner.arena_bytes
            self._idle[frame] = owner.frames, owner.arena_bytes
            owner.frames.append(frame)
        self._let_in()

    def drop(self, owner: ArenaOwner) -> None:
        """Nobody has used this one for long: its idle frames are given up."""
        while owner.frames:
            self.kept -= self._idle.pop(owner.frames.pop())[1]

    def _has_room_for(self, owner: ArenaOwner) -> bool:
        return self.used + owner.arena_bytes <= self.bound

    def _let_in(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._has_room_for(self._waiting[0][0])):
            owner, turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled, and its task has not run yet
                turn.set_result(self._reserve(owner))

    def _reserve(self, owner: ArenaOwner) -> Frame | None:
        self.used += owner.arena_bytes
        frame = None
        if owner.frames:
            frame = owner.frames.pop()
            self.kept -= self._idle.pop(frame)[1]
        while self.used + self.kept > self.bound:
            other, (pool, nbytes) = self._idle.popitem(last=False)
            pool.remove(other)
            self.kept -= nbytes
        return frame

    def check_invariants(self) -> None:
        assert self.used >= 0
        assert self.used + self.kept <= self.bound
        assert self.kept == sum(nbytes for _, nbytes in self._idle.values())
        assert all(frame in pool for frame, (pool, _) in self._idle.items())
        if self._waiting:
            first, turn = self._waiting[0]
            assert turn.cancelled() or not self._has_room_for(first), "nobody waits in vain"


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
        super().__init__(variant, walker, address, device, workers, trimmer)
        self.arena_bytes = variant.arena_bytes
        self.arenas = arenas
        self.at_hand = ()  # the arenas know which of them was used last

    def lease(self) -> Frame:
        """A frame for one run, which must be released.

        Raises:
            NoRoomError: the run must wait for its frame.
            ResourceExhaustedError: it would wait for ever.
        """
        self._check_bound()
        return self._made(self.arenas.take(self))

    async def lease_in_turn(self) -> Frame:
        self._check_bound()
        turn = asyncio.get_running_loop().create_future()
        self.arenas.wait(self, turn)
        try:
            return self._made(await turn)
        except asyncio.CancelledError:
            self.arenas.give_up(self, turn)
            raise

    def keep(self, frame: Frame) -> None:
        self.arenas.give_back(self, frame)

    def trim(self) -> None:
        self.arenas.drop(self)

    def _made(self, frame: Frame | None) -> Frame:
        """The frame that `arenas` gave, or a new one."""
        try:
            return frame or Frame(self)
        except MemoryError:
            self.arenas.give_back(self, None)
            raise

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
