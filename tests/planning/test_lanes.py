"""Tasks of parallel regions: in any order of execution, each row reads what it reads in program order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch, LoopKernel, Operand, Units
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import Label, Pending, PendingJump, PendingRow
from aioexec.planning.parallelism import lanes
from aioexec.planning.parallelism.lane_buffers import lay_out_lanes
from aioexec.planning.parallelism.lanes import Cut, PendingParallelRegion, Task, cut
from tests.tiers import share_all

KERNEL = ElementwiseKernel("y = x", (("x", "float32"),), (("y", "float32"),), "vv")
LANE_SLOT = 7


@pytest.fixture
def fine(monkeypatch):
    """The cheapest stretch is worth a region."""
    share_all(monkeypatch)


def row(reads: Sequence[Buffer], writes: Sequence[Buffer], position: int, cost: int = 1000) -> PendingRow:
    operands = [Operand("input", k) for k in range(len(reads))] + [Operand("output", 0) for _ in writes]
    kernel = replace(KERNEL, inputs=tuple((f"x{k}", "float32") for k in range(len(reads))))
    launch = Launch(kernel, tuple(operands), (), (), cost)
    for buffer in (*reads, *writes):
        if buffer.slot is None:
            buffer.born = position if buffer.born < 0 else buffer.born
            buffer.dies = max(buffer.dies, position)
    return PendingRow(launch, tuple((buffer, 0) for buffer in (*reads, *writes)), position)


def branches(count: int, length: int, cost: int) -> tuple[list[PendingRow], list[Buffer]]:
    """Chains that share an input and are joined in the end, row by row: first all first rows, then all second ones."""
    source, ends = Buffer(64, slot=-1), [Buffer(64, slot=-1) for _ in range(count)]
    rows: list[PendingRow] = []
    for step in range(length):
        made = [Buffer(64) for _ in range(count)]
        for k in range(count):
            rows.append(row([source if step == 0 else ends[k]], [made[k]], len(rows), cost))
        ends = made
    rows.append(row(ends, [Buffer(64, slot=-1)], len(rows), 10))
    return rows, ends


def numbers(task: Task) -> list[int]:
    return [number for number, _ in task.rows]


def test_cheap_programs_and_those_of_one_worker_stay_whole():
    rows, _ = branches(4, 3, cost=5_000)
    expensive, _ = branches(4, 3, cost=100_000)

    assert cut(rows, 2, {}) is None
    assert cut(expensive, 1, {}) is None
    assert cut(expensive, 2, {}) is not None


def test_a_chain_is_no_region():
    buffers = [Buffer(64) for _ in range(11)]
    rows = [row([buffers[k]], [buffers[k + 1]], k, 300_000) for k in range(10)]

    assert cut(rows, 4, {}) is None


def test_branches_are_split_into_chains_and_joined_at_the_end():
    rows, _ = branches(8, 3, cost=20_000)

    found = cut(rows, 2, {})

    assert found is not None
    (region,) = found.parallel_regions
    chains = [task for task in region.tasks if not task.waits]
    assert sorted(number for task in chains for number in numbers(task)) == list(range(24))
    assert all({number % 8 for number in numbers(task)} & {number % 8 for number in numbers(other)} == set()
               for task in chains for other in chains if task is not other)  # fmt: skip
    (join,) = [task for task in region.tasks if task.waits]
    assert numbers(join) == [24]
    assert join.waits.bit_count() == len(chains)
    assert [region.tasks[k] for task in chains for k in task.next] == [join] * len(chains)


def test_a_dear_row_is_cut_into_parts_of_whole_grains_the_larger_ones_first():
    x, y = Buffer(4000, slot=-1), Buffer(4000, slot=-1)
    launch = Launch(
        KERNEL,
        (Operand("input", 0), Operand("output", 0)),
        (1, 1000, 4, 4),
        (),
        300_000,
        Units(1, (4, 4), 64),
    )

    parts = lanes.parts(PendingRow(launch, ((x, 0), (y, 8)), 0), 3, 20_000)

    assert [part.launch.words[1] for part in parts] == [192, 192, 192, 192, 128, 104]
    assert [[offset for _, offset in part.operands] for part in parts] == [
        [4 * begin, 8 + 4 * begin] for begin in (0, 192, 384, 576, 768, 896)
    ]
    assert [part.launch.cost for part in parts] == [57_600] * 4 + [38_400, 31_200]


@pytest.mark.parametrize(
    ("cost", "grain", "count"),
    [
        (100_000, 20_000, 4),  # two for each lane
        (600_000, 20_000, 10),  # of 60 µs
        (720_000, 120_000, 6),  # of the grain
        (600_000, 120_000, 4),  # as many for each
        (900_000, 400_000, 4),  # two for each lane at least
        (9_000_000, 20_000, 16),  # eight for each lane at most
    ],
)
def test_the_dearer_a_row_the_more_parts_has_it(cost: int, grain: int, count: int):
    x, y = Buffer(4000, slot=-1), Buffer(4000, slot=-1)
    launch = Launch(
        KERNEL, (Operand("input", 0), Operand("output", 0)), (1, 10_000, 4, 4), (), cost, Units(1, (4, 4), 1)
    )

    parts = lanes.parts(PendingRow(launch, ((x, 0), (y, 0)), 0), 2, grain)

    assert len(parts) == count
    assert sum(part.launch.words[1] for part in parts) == 10_000


@pytest.mark.parametrize(
    ("share", "lanes_count", "sizes"),
    [
        (1, 2, [64] * 16),
        (256, 2, [256] * 4),
        (384, 2, [512, 512]),
        (384, 8, [128] * 8),
        (2048, 2, [512, 512]),
    ],
)
def test_parts_have_a_share_or_more_if_there_are_enough_for_all_workers(
    share: int, lanes_count: int, sizes: list[int]
):
    x, y = Buffer(4096, slot=-1), Buffer(4096, slot=-1)
    units = Units(0, (4, 4), 64, share=share)
    launch = Launch(KERNEL, (Operand("input", 0), Operand("output", 0)), (1024,), cost=10**8, units=units)

    parts = lanes.parts(PendingRow(launch, ((x, 0), (y, 0)), 0), lanes_count, 1)

    assert [part.launch.words[0] for part in parts] == sizes


def test_a_row_without_units_or_worth_less_than_two_shares_is_not():
    launch = Launch(
        KERNEL, (Operand("input", 0), Operand("output", 0)), (1, 64, 4, 4), (), 50, Units(1, (4, 4), 1)
    )
    cheap = PendingRow(launch, ((Buffer(256), 0), (Buffer(256), 0)), 0)
    whole = PendingRow(replace(launch, cost=10**7, units=None), cheap.operands, 0)

    assert lanes.parts(cheap, 2, 20_000) == [cheap]
    assert lanes.parts(whole, 2, 20_000) == [whole]


def test_a_region_ends_at_the_target_of_a_jump_and_labels_are_adjusted():
    before, _ = branches(2, 2, cost=150_000)
    after, _ = branches(2, 2, cost=150_000)
    label, out = Label(len(before) + 1), Label(len(before) + 1 + len(after))
    after = [replace(each, position=each.position + 10) for each in after]
    rows: list[Pending] = [*before, PendingJump(out, None, 9), *after]

    found = cut(rows, 2, {})
    jumped = cut([*before, PendingJump(label, None, 9), *after], 2, {})

    assert found is not None
    assert jumped is not None
    assert [region.start for region in found.parallel_regions] == [0, len(before) + 2]
    assert out.row == len(found.rows)
    assert label.row == jumped.parallel_regions[1].start
    assert found.rows[len(before) + 1] is rows[len(before)]


def test_a_write_over_a_variable_waits_for_who_reads_what_it_held():
    old, new = Buffer(64, slot=-1), Buffer(64, slot=-1)
    x, y = Buffer(64, slot=-1), Buffer(64, slot=-1)
    rows = [row([x], [y], 0, 300_000), row([old], [Buffer(64)], 1, 300_000), row([x], [new], 2, 300_000)]

    assert lanes.waits(rows, {}) == [set(), set(), set()]
    assert lanes.waits(rows, {id(new): old}) == [set(), set(), {1}]


def test_elementwise_rows_that_only_read_scratch_do_not_wait_for_each_other():
    scratch = Buffer(64)
    launch = Launch(KERNEL, (Operand("scratch", 0), Operand("output", 0)), (), (), 300_000)
    rows = [PendingRow(launch, ((scratch, 0), (Buffer(64), 0)), 0) for _ in range(2)]
    other = replace(launch, kernel=LoopKernel(lambda x, y: 0, ("float32", "float32"), 0, 0))

    assert lanes.waits(rows, {}) == [set(), set()]
    assert lanes.waits([replace(row, launch=other) for row in rows], {}) == [set(), {0}], (
        "other kernels may read what they write"
    )


# All of it, in random programs


@dataclass
class Program:
    rows: list[Pending]
    buffers: list[Buffer]
    inputs: list[Buffer]


def random_program(rng: random.Random) -> Program:
    """Rows that read some earlier values and write one; some read with an heir, some follow a jump that is not taken."""
    inputs = [Buffer(64, slot=-1) for _ in range(2)]
    values, buffers = list(inputs), list(inputs)
    rows: list[Pending] = []
    for position in range(rng.randint(8, 40)):
        reads = rng.sample(values[-8:], rng.randint(1, min(3, len(values[-8:]))))
        made = Buffer(rng.choice([64, 128, 8192]), slot=-1 if rng.random() < 0.1 else None)
        for read in reads:
            if rng.random() < 0.5 and read.slot is None and made.slot is None:
                read.heirs.append(made)
                break
        rows.append(row(reads, [made], position, rng.choice([5, 1000, 3000])))
        values.append(made)
        buffers.append(made)
        if rng.random() < 0.03:
            rows.append(PendingJump(Label(len(rows) + 1), None, position))
    return Program(rows, buffers, inputs)


class Machine:
    """Memory whose bytes are tokens: a row writes one of its own, and what it reads must be that of the program's order."""

    def __init__(self, program: Program, arena_bytes: int, lanes: int) -> None:
        self.arena = np.full(arena_bytes + 64, -1)
        self.slots = {
            id(buffer): np.full(buffer.nbytes, -1) for buffer in program.buffers if buffer.slot == -1
        }
        self.lanes = lanes

    def memory(self, buffer: Buffer, region: PendingParallelRegion | None, lane: int) -> "np.ndarray":
        if buffer.slot == -1:
            return self.slots[id(buffer)]
        start = buffer.offset
        if buffer.slot == LANE_SLOT:
            assert region is not None
            assert region.scratch is not None
            assert buffer.offset + buffer.nbytes <= region.lane_bytes
            start += region.scratch.offset + lane * region.lane_bytes
        assert start + buffer.nbytes <= len(self.arena) - 64
        return self.arena[start : start + buffer.nbytes]

    def do(
        self, row: PendingRow, found: list[int], region: PendingParallelRegion | None = None, lane: int = 0
    ) -> None:
        *reads, write = [buffer for buffer, _ in row.operands]
        for read, token in zip(reads, found, strict=True):
            assert (self.memory(read, region, lane) == token).all(), "another row has written here"
        self.memory(write, region, lane)[:] = row.position


def expected_reads(rows: Sequence[Pending]) -> dict[int, list[int]]:
    """For each row, by position, the position of the last writer of each value it reads in program order, -1 for inputs."""
    last: dict[int, int] = {}
    found = {}
    for each in rows:
        if isinstance(each, PendingRow):
            *reads, write = [buffer for buffer, _ in each.operands]
            found[each.position] = [last.get(id(read), -1) for read in reads]
            last[id(write)] = each.position
    return found


def do_in_random_order(machine: Machine, found: Cut, reads: dict[int, list[int]], rng: random.Random) -> None:
    """Rows of tasks in turns, each lane doing one task after another."""
    inside = {id(row) for region in found.parallel_regions for task in region.tasks for _, row in task.rows}
    for each in found.rows:
        if isinstance(each, PendingParallelRegion):
            do_region(machine, each, reads, rng)
        elif isinstance(each, PendingRow) and id(each) not in inside:
            machine.do(each, reads[each.position])


def do_region(
    machine: Machine, region: PendingParallelRegion, reads: dict[int, list[int]], rng: random.Random
) -> None:
    left = [task.waits.bit_count() for task in region.tasks]
    ready = [k for k, count in enumerate(left) if not count]
    busy: dict[int, tuple[int, list[PendingRow]]] = {}
    done = 0
    while ready or busy:
        free = [lane for lane in range(machine.lanes) if lane not in busy]
        if ready and free and rng.random() < 0.6:
            k = ready.pop(rng.randrange(len(ready)))
            busy[rng.choice(free)] = k, [row for _, row in region.tasks[k].rows]
            continue
        if not busy:
            continue
        lane = rng.choice(list(busy))
        k, rows = busy[lane]
        machine.do(rows.pop(0), reads[region.tasks[k].rows[len(region.tasks[k].rows) - len(rows) - 1][1].position],
                   region, lane)  # fmt: skip
        if not rows:
            del busy[lane]
            done += 1
            for other in region.tasks[k].next:
                left[other] -= 1
                if not left[other]:
                    ready.append(other)
    assert done == len(region.tasks)


@pytest.fixture
def in_windows(monkeypatch):
    """Every region counts as long, and its order is that of the program, in windows of few tasks."""
    monkeypatch.setattr(lanes, "_LONG_NS", 0)
    monkeypatch.setattr(lanes, "_WINDOWS", 6)
    monkeypatch.setattr(lanes, "_MOST_LONGER", 1000)


@pytest.mark.parametrize("seed", range(150))
def test_in_any_order_of_tasks_each_row_reads_what_it_would_have_read(fine, seed: int):
    check_random_program(seed)


@pytest.mark.parametrize("seed", range(150))
def test_the_same_holds_if_tasks_wait_for_all_that_come_long_before(fine, in_windows, seed: int):
    check_random_program(seed)


def check_random_program(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    count = rng.choice([2, 3, 4])
    reads = expected_reads(program.rows)

    found = cut(program.rows, count, {})
    if found is None:
        return
    size = lay_out_lanes(program.buffers, found, count, LANE_SLOT)

    for _ in range(5):
        do_in_random_order(Machine(program, size, count), found, reads, rng)


def test_most_random_programs_have_parallel_regions(fine):
    found = [cut(random_program(random.Random(seed)).rows, 3, {}) for seed in range(150)]

    assert sum(each is not None for each in found) > 100


def test_what_lives_in_one_task_lies_in_the_memory_of_its_lane():
    rows, ends = branches(16, 3, cost=10_000)
    buffers = list({id(buffer): buffer for each in rows for buffer, _ in each.operands}.values())
    found = cut(rows, 2, {})
    assert found is not None
    (region,) = found.parallel_regions

    size = lay_out_lanes(buffers, found, 2, LANE_SLOT)

    inner = [buffer for buffer in buffers if buffer.slot != -1 and buffer not in ends]
    assert inner
    assert {buffer.slot for buffer in inner} == {LANE_SLOT}
    assert {buffer.slot for buffer in ends} == {None}
    assert region.scratch is not None
    assert size >= 2 * region.lane_bytes
    assert region.lane_bytes < 64 * len(inner), "tasks and rows share it"


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_what_a_loop_reads_in_each_round_keeps_its_place_to_the_end_of_a_round(fine, in_a_loop: bool):
    """One task reads it first; all others wait for that one, and what they make is as large."""
    source, result = Buffer(64, slot=-1), Buffer(64, slot=-1)
    before, first = Buffer(8192), Buffer(8192)
    made = [Buffer(8192) for _ in range(8)]
    rows: list[Pending] = [row([source], [before], 0, cost=10), PendingJump(Label(2), None, 0)]
    rows.append(row([before], [first], 1))
    rows += [row([first], [each], 2 + k, cost=100_000) for k, each in enumerate(made)]
    rows.append(row(made, [result], 10))
    before.dies = 10
    if in_a_loop:
        before.keep_past(10)

    found = cut(rows, 2, {})
    assert found is not None
    lay_out_lanes([before, first, *made], found, 2, LANE_SLOT)

    places = [each.offset for each in made if each.slot is None]
    assert places
    assert (before.offset in places) is not in_a_loop


def test_what_was_there_before_a_loop_is_in_no_lane_though_one_task_alone_touches_it(monkeypatch):
    """A list: what one round puts there another one takes, perhaps in another lane."""
    monkeypatch.setattr(lanes, "_LOOP_DIVISOR", 1)
    chains, ends = branches(16, 3, cost=10_000)
    last = chains[-1].position
    storage = Buffer(64, born=-1, dies=last)  # as a loop has it
    chains[16] = replace(chains[16], operands=(*chains[16].operands, (storage, 0)))
    inner = {id(buffer): buffer for each in chains for buffer, _ in each.operands if buffer not in ends}
    found = cut([*chains, PendingJump(Label(0), None, last)], 2, {})
    assert found is not None

    lay_out_lanes([*inner.values(), *ends], found, 2, LANE_SLOT)

    assert chains[16].operands[1][0].slot == LANE_SLOT
    assert storage.slot is None


def test_shares_of_one_piece_of_work_wait_for_the_same_rows_and_are_waited_for():
    windows, output, own = Buffer(64), Buffer(256), Buffer(64)
    fill, use = row([Buffer(64)], [windows], 0, 300_000), row([output], [Buffer(64)], 2, 300_000)
    loop = LoopKernel(lambda *arguments: 0, ("float32",) * 2, 1, 0)
    operands = (Operand("scratch", 0), Operand("output", 0))
    shared = Launch(loop, operands, (4,), (), 300_000, Units(0, (0, 16), 1))
    begin, end = (PendingRow(shared, ((windows, 0), (output, offset)), 1) for offset in (0, 128))

    assert lanes.waits([fill, begin, end, use], {}) == [set(), {0}, {0}, {1, 2}]
    other = replace(end, launch=replace(shared, units=Units(0, (0, 16), 1)))
    assert lanes.waits([fill, begin, other, use], {}) == [set(), {0}, {1}, {2}]

    private = replace(
        shared, units=Units(0, (32, 16), 1)
    )  # scratch memory of a share, at the same place in both
    rows = [replace(each, launch=private, operands=((own, 0), each.operands[1])) for each in (begin, end)]
    assert lanes.waits(rows, {}) == [set(), {0}]


@pytest.mark.parametrize("positions", [(0, 1, 2), (0, 0, 0)])
def test_updates_of_one_scalar_wait_for_each_other_though_their_launches_are_the_same(positions):
    variable = Buffer(8, slot=0)
    launch = Launch(KERNEL, (Operand("input", 0), Operand("state", 0)), (1,), (), 1000, Units(0, (0, 0), 1))
    rows = [PendingRow(launch, ((variable, 0), (variable, 0)), position) for position in positions]

    assert lanes.waits(rows, {}) == [set(), {0}, {1}]


def test_tasks_of_a_long_region_wait_for_all_before_the_previous_window(fine, in_windows):
    rows, _ = branches(16, 1, cost=3000)

    found = cut(rows, 2, {})

    assert found is not None
    tasks = found.parallel_regions[0].tasks
    for number, task in enumerate(tasks):
        reached = task.waits
        for other in range(number):
            reached |= tasks[other].before if task.waits >> other & 1 else 0
        assert reached == task.before
        assert [number in tasks[other].next for other in range(number)] == [
            bool(task.waits >> other & 1) for other in range(number)
        ]
    assert [task.before.bit_count() for task in tasks] == [0] * 6 + [3] * 3 + [6] * 3 + [9] * 3 + [12, 16]


def test_a_long_region_reuses_memory_that_the_longest_path_first_would_keep(monkeypatch):
    """Each step of a chain has a large value that a branch off the chain reads, too, as in a backward pass."""
    sizes = []
    for long in (1 << 60, 0):
        monkeypatch.setattr(lanes, "_LONG_NS", long)
        chain, rows, buffers = Buffer(64, slot=-1), list[Pending](), list[Buffer]()
        for _ in range(40):
            value = Buffer(1 << 20)
            rows.append(row([chain], [value], len(rows), 200_000))
            chain = Buffer(64, slot=-1)
            rows.append(row([value], [Buffer(64, slot=-1)], len(rows), 150_000))  # the branch
            rows.append(row([value], [chain], len(rows), 200_000))
            buffers.append(value)
        found = cut(rows, 2, {})
        assert found is not None
        sizes.append(lay_out_lanes(buffers, found, 2, LANE_SLOT))

    assert sizes[1] <= 8 << 20 < 20 << 20 <= sizes[0]
