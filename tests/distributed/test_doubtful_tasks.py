"""Tasks where steps have failed are checked before the next step, also for failures recorded while they are checked."""

import pytest

from aioexec.distributed.master.doubtful_tasks import DoubtfulTasks
from aioexec.errors import AbortedError, UnavailableError

TASK = "/job:worker/replica:0/task:0"
LOST = UnavailableError("the connection was lost")
RESTARTED = AbortedError("graph handle is not found: 1")


class Restoring:
    """Records the checks of tasks; `during`, called once, while the first is under way."""

    def __init__(self, during):
        self.checks = []
        self.during = during

    async def __call__(self, task, has_lost_graphs):
        self.checks.append(has_lost_graphs)
        if len(self.checks) == 1:
            self.during()


@pytest.mark.parametrize(("meanwhile", "expected"), [(LOST, False), (RESTARTED, True)])
@pytest.mark.parametrize(("before", "first"), [(LOST, False), (RESTARTED, True)])
async def test_a_task_that_fails_while_it_is_checked_is_checked_again_before_the_next_step(
    before, first, meanwhile, expected
):
    restore = Restoring(lambda: tasks.record_failure(TASK, meanwhile))
    tasks: DoubtfulTasks = DoubtfulTasks(restore)
    tasks.record_failure(TASK, before)

    for _ in range(3):
        await tasks.check()

    assert restore.checks == [first, expected]
    assert tasks.tasks == {}


async def test_a_check_that_fails_is_repeated_with_what_was_recorded_before_and_during_it():
    def fail():
        tasks.record_failure(TASK, LOST)
        raise LOST

    restore = Restoring(fail)
    tasks: DoubtfulTasks = DoubtfulTasks(restore)
    tasks.record_failure(TASK, RESTARTED)

    with pytest.raises(UnavailableError):
        await tasks.check([TASK])
    await tasks.check([TASK])

    assert restore.checks == [True, True]
    assert tasks.tasks == {}
