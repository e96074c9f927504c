"""Sessions for code that cannot await: they block the calling thread, and leave none behind."""

import asyncio
import signal
import threading

import numpy as np
import pytest

import aioexec as ax
from aioexec import blocking
from aioexec.train.hooks.file_writer_cache import FileWriterCache


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def test_run_returns_values(graph):
    x = ax.placeholder(ax.float32, [2])
    y = x * 2.0

    with blocking.Session() as sess:
        values = sess.run({"y": y}, {x: [1, 2]})

    np.testing.assert_array_equal(values["y"], [2.0, 4.0])


def test_tensors_and_operations_use_the_default_session(graph):
    v = ax.Variable(3.0)

    with blocking.Session():
        v.initializer.run()
        value = v.eval()

    assert value == 3.0


def test_an_interactive_session_is_the_default_until_it_is_closed(graph):
    sess = blocking.InteractiveSession()
    value = ax.constant(2).eval()
    sess.close()

    assert value == 2
    with pytest.raises(ValueError, match="No default session"):
        ax.constant(2).eval()


def test_an_error_of_a_step_is_raised(graph):
    v = ax.Variable(3.0, name="weights")

    with (
        blocking.Session() as sess,
        pytest.raises(ax.errors.FailedPreconditionError, match="weights"),
    ):
        sess.run(v)


def test_a_step_ends_at_its_time_limit(graph):
    nothing = ax.FIFOQueue(1, ax.float32).dequeue()

    with blocking.Session() as sess, pytest.raises(ax.errors.DeadlineExceededError):
        sess.run(nothing, options=ax.RunOptions(timeout_in_ms=1))


def test_callables_and_partial_runs_return_values(graph):
    a, b = ax.placeholder(ax.float32, []), ax.placeholder(ax.float32, [])
    doubled = a * 2.0
    result = doubled + b

    with blocking.Session() as sess:
        double = sess.make_callable(doubled, [a])
        handle = sess.partial_run_setup([doubled, result], [a, b])
        first = sess.partial_run(handle, doubled, {a: 3.0})
        second = sess.partial_run(handle, result, {b: first})
        values = [double(5.0), first, second]

    assert values == [10.0, 6.0, 12.0]


def test_what_takes_a_session_is_called_in_its_loop(graph, tmp_path):
    v = ax.Variable(3.0)
    saver = ax.train.Saver()

    with blocking.Session() as sess:
        sess.run(v.initializer)
        path = sess.call(saver.save, str(tmp_path / "model"))
        sess.run(v.assign(1.0))
        sess.call(saver.restore, path)
        value = v.eval()

    assert value == 3.0


def test_a_closed_session_refuses_steps_and_may_be_closed_again(graph):
    sess = blocking.Session()
    sess.run(ax.constant(1))
    sess.close()
    sess.close()

    with pytest.raises(RuntimeError, match="closed"):
        sess.run(ax.constant(1))


def test_close_cancels_steps_after_the_grace_period(graph):
    queue = ax.FIFOQueue(1, ax.float32, [])
    x = queue.dequeue()
    sess = blocking.Session()
    sess.run(ax.constant(1))
    errors: list[RuntimeError] = []

    def wait():
        try:
            sess.run([x, begun])
        except RuntimeError as error:
            errors.append(error)

    def begin():
        running.set()
        return np.float32(0)

    running = threading.Event()
    with graph.as_default():
        begun = ax.py_func(begin, [], ax.float32)
    thread = threading.Thread(target=wait)
    thread.start()
    running.wait()
    sess.close(grace=0)
    thread.join()

    assert len(errors) == 1


def test_several_threads_share_a_session(graph):
    x = ax.placeholder(ax.float32, [])
    y = x + 1.0
    results = {}

    with blocking.Session() as sess:
        threads = [
            threading.Thread(target=lambda place=place: results.update({place: sess.run(y, {x: place})}))
            for place in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert results == {place: place + 1.0 for place in range(4)}


@pytest.mark.may_block
async def test_a_thread_with_a_running_loop_may_use_it(graph):
    with blocking.Session() as sess:
        value = sess.run(ax.constant(4))

    assert value == 4


def test_its_own_loop_may_not_call_it(graph):
    with blocking.Session() as sess:
        x = ax.constant(1)

        with pytest.raises(ax.errors.FailedPreconditionError, match="its own event loop"):
            sess.call(lambda _: sess.run(x))


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, as in a program on a terminal; a shell's background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_cancels_the_step_and_is_raised(graph, interruptible):
    queue = ax.FIFOQueue(1, ax.int32, [])
    put, taken = queue.enqueue(5), queue.dequeue()

    def interrupt():
        signal.pthread_kill(main, signal.SIGINT)
        return np.int32(0)

    main = threading.main_thread().ident or 0
    with blocking.Session() as sess:
        waiting = ax.py_func(interrupt, [], ax.int32)
        with pytest.raises(KeyboardInterrupt):
            sess.run([taken, waiting])
        sess.run(put)
        value = sess.run(taken)  # the step that was cancelled has not taken it

    assert value == 5


def test_a_session_that_was_not_closed_warns_and_its_thread_ends(graph):
    sess = blocking.Session()
    sess.run(ax.constant(1))
    thread = sess._thread._thread

    with pytest.warns(ResourceWarning, match="unclosed"):
        del sess

    assert thread is not None
    assert not thread.is_alive()


def test_a_monitored_session_trains_and_saves(graph, tmp_path):
    step = ax.train.get_or_create_global_step()
    train_op = step.assign_add(1)
    steps: list[int] = []

    class Count(ax.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            steps.append(len(steps) + 1)

    hooks = [Count(), ax.train.StopAtStepHook(last_step=3)]
    with blocking.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks) as sess:
        while not sess.should_stop():
            sess.run(train_op)

    asyncio.run(FileWriterCache.clear())  # as at the end of a process
    assert steps == [1, 2, 3]
    assert ax.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-3")
