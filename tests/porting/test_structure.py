"""`aioexec port` on what is more than one function: modules, classes, generators, several files, imports."""

from __future__ import annotations

import textwrap

import pytest

from aioexec.porting.port import port
from tests.porting.test_port import check, ported


def test_statements_outside_of_functions_move_into_one():
    text, findings = ported(
        """
        x = tf.placeholder(tf.float32)
        step = 0

        def show(value):
            print(step, rate, value)

        # Training
        rate = 0.1
        with tf.Session() as sess:
            step += 1
            show(sess.run(x, {x: rate}))
            print('''done
        ''')
        """
    )

    assert findings == []
    assert text == textwrap.dedent(
        """\
        x = tf.placeholder(tf.float32)
        step = 0

        def show(value):
            print(step, rate, value)

        # Training
        rate = 0.1


        async def main():
            global step
            async with tf.Session() as sess:
                step += 1
                show(await sess.run(x, {x: rate}))
                print('''done
        ''')


        asyncio.run(main())
        """
    )


def test_the_block_of_the_main_program_becomes_a_function():
    text, findings = ported(
        """
        def use():
            return args

        if __name__ == "__main__":  # the program
            args = 1
            sess = tf.Session()
            print(sess.run(use()))
        """
    )

    assert findings == []
    assert text == textwrap.dedent(
        """\
        def use():
            return args

        async def main():  # the program
            global args
            args = 1
            sess = tf.Session()
            print(await sess.run(use()))


        if __name__ == "__main__":
            asyncio.run(main())
        """
    )


def test_one_call_is_run_by_asyncio():
    text, _ = ported(
        """
        def main(argv):
            tf.Session().run(argv)

        if __name__ == '__main__': main(1)
        """
    )

    assert text.endswith("if __name__ == '__main__': asyncio.run(main(1))\n")


def test_a_main_function_of_an_application_stays():
    text, findings = ported("def main(_):\n    tf.Session().run(_)\n\n\ntf.app.run()\n")

    assert findings == []
    assert text == "async def main(_):\n    await tf.Session().run(_)\n\n\ntf.app.run()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with tf.Graph().as_default(), tf.Session() as s:  # first\n    s.run(x)",
         "with tf.Graph().as_default():\n    async with tf.Session() as s:  # first\n        await s.run(x)"),
        ("with tf.Session() as s, \\\n     tf.device('/cpu:0'):\n    s.run(x)\n    # end",
         "async with tf.Session() as s:\n    with tf.device('/cpu:0'):\n        await s.run(x)\n        # end"),
        ("with tf.Session() as s, tf.Session() as t:\n    t.run(x)",
         "async with tf.Session() as s, tf.Session() as t:\n    await t.run(x)"),
        ("with tf.name_scope('a'), tf.Session() as s:\n    with tf.device('b'), tf.Session() as t:\n        t.run(x)",
         "with tf.name_scope('a'):\n    async with tf.Session() as s:\n        with tf.device('b'):\n"
         "            async with tf.Session() as t:\n                await t.run(x)"),
    ],
)  # fmt: skip
def test_statements_with_both_kinds_of_managers_are_split(before, after):
    head = "def f(x):\n"

    check(head + textwrap.indent(before, "    "), "async " + head + textwrap.indent(after, "    "))


def test_properties_calls_and_context_managers_of_a_class():
    check(
        """
        class Model:
            def __enter__(self):
                self.sess = tf.Session()
                return self

            def __exit__(self, *error):
                self.sess.close()

            def __call__(self, x):
                return self.sess.run(x)

            @property
            def step(self):
                return self.sess.run("step")

            @staticmethod
            def load(sess):
                sess.run("load")

        def use():
            with Model() as model:
                Model.load(model.sess)
                return model(1) + model.step
        """,
        """
        class Model:
            async def __aenter__(self):
                self.sess = tf.Session()
                return self

            async def __aexit__(self, *error):
                await self.sess.close()

            async def __call__(self, x):
                return await self.sess.run(x)

            @property
            async def step(self):
                return await self.sess.run("step")

            @staticmethod
            async def load(sess):
                await sess.run("load")

        async def use():
            async with Model() as model:
                await Model.load(model.sess)
                return await model(1) + await model.step
        """,
    )


def test_generators_and_what_iterates_over_them():
    text, findings = ported(
        """
        def losses(sess):
            for i in range(3):
                yield sess.run(i)

        def all_losses(sess):
            yield from losses(sess)

        def use(sess):
            first = next(losses(sess))
            for i, loss in enumerate(losses(sess), 1):
                print(i, loss)
            for loss in losses(sess):
                pass
            total = sum(losses(sess))
            return list(all_losses(sess)), [x + 1 for x in losses(sess)]
        """
    )

    assert findings == []
    assert text == textwrap.dedent(
        """\
        async def losses(sess):
            for i in range(3):
                yield await sess.run(i)

        async def all_losses(sess):
            async for value in losses(sess): yield value

        async def use(sess):
            first = await anext(losses(sess))
            async for i, loss in ((next(number), each) for number in [itertools.count(1)] async for each in losses(sess)):
                print(i, loss)
            async for loss in losses(sess):
                pass
            total = sum([each async for each in losses(sess)])
            return [each async for each in all_losses(sess)], [x + 1 async for x in losses(sess)]
        """
    )


def test_lambdas_and_functions_with_a_context():
    check(
        """
        from contextlib import contextmanager

        @contextmanager
        def opened():
            sess = tf.Session()
            yield sess
            sess.close()

        def use():
            with opened() as s:
                f = lambda x: s.run(x)
                g = lambda x, y=1: s.run(x)[0] + y
                return f(1), g(2)
        """,
        """
        from contextlib import contextmanager, asynccontextmanager

        @asynccontextmanager
        async def opened():
            sess = tf.Session()
            yield sess
            await sess.close()

        async def use():
            async with opened() as s:
                f = lambda x: s.run(x)
                async def g(x, y=1):
                    return (await s.run(x))[0] + y
                return await f(1), await g(2)
        """,
    )


def test_calls_are_followed_through_the_files_of_a_program():
    results = port(
        {
            "pkg/__init__.py": "",
            "pkg/model.py": "import tensorflow as tf\n\n\nclass Model:\n    def fit(self, s):\n        s.sess.run('fit')\n",
            "pkg/train.py": "from .model import Model\nfrom . import tools\n\n\ndef train(s):\n    tools.call(Model(), s)\n",
            "pkg/tools.py": "def call(model, s):\n    model.fit(s)\n",
            "main.py": "import pkg.train as t\n\nif __name__ == '__main__':\n    t.train(None)\n",
        }
    )

    assert results["pkg/model.py"].text.endswith("async def fit(self, s):\n        await s.sess.run('fit')\n")
    assert results["pkg/train.py"].text.endswith("async def train(s):\n    await tools.call(Model(), s)\n")
    assert results["pkg/tools.py"].text == "async def call(model, s):\n    await model.fit(s)\n"
    assert results["main.py"].text == (
        "import asyncio\nimport pkg.train as t\n\nif __name__ == '__main__':\n    asyncio.run(t.train(None))\n"
    )


def test_hooks_know_what_they_are_given():
    check(
        """
        class Hook(tf.train.SessionRunHook):
            def after_create_session(self, s, c):
                s.run("x")

            def after_run(self, context, values):
                context.session.run("y")
        """,
        """
        class Hook(tf.train.SessionRunHook):
            async def after_create_session(self, s, c):
                await s.run("x")

            async def after_run(self, context, values):
                await context.session.run("y")
        """,
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import tensorflow as tf", "import aioexec as tf"),
        ("import tensorflow", "import aioexec as tensorflow"),
        ("import tensorflow.compat.v1 as tf", "import aioexec as tf"),
        ("import os, tensorflow as tf  # both", "import os\nimport aioexec as tf  # both"),
        ("from tensorflow.contrib import rnn", "from aioexec.contrib import rnn"),
        ("from tensorflow import (\n    Session,  # one\n    Graph,\n)",
         "from aioexec import (\n    Session,  # one\n    Graph,\n)"),
        ("from tensorflow.python.ops import array_ops, rnn_cell as cell",
         "import aioexec as array_ops\nimport aioexec.python.rnn_cell as cell"),
        ("from tensorflow.python.framework.ops import convert_to_tensor", "from aioexec import convert_to_tensor"),
        ("from tensorflow.python.ops import gen_nn_ops", "import aioexec.gen_ops as gen_nn_ops"),
        ("from tensorflow.contrib.slim.python.slim.nets import vgg", "from aioexec.contrib.slim.nets import vgg"),
        ("from tensorflow.core.util import event_pb2", "import aioexec.formats.protos as event_pb2"),
        ("from tensorflow.python.training import moving_averages",
         "import aioexec.train.optimizers.moving_averages as moving_averages"),
        ("from tensorflow.python.platform import gfile", "import aioexec.gfile as gfile"),
        ("from tensorflow.python.client import timeline", "import aioexec.client.timeline as timeline"),
        ("import tensorflow.contrib.layers as layers", "import aioexec.contrib.layers as layers"),
        ("import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\nx = 1",
         "import aioexec as tf\ntf.disable_v2_behavior()\nx = 1"),
        ("import numpy.tensorflow", "import numpy.tensorflow"),
    ],
)  # fmt: skip
def test_imports(before, after):
    result = port({"a.py": before + "\n"})["a.py"]

    assert (result.text, result.findings) == (after + "\n", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tf.no_such_name(1)\n", "2: aioexec has no `no_such_name`"),
        ("from tensorflow.contrib import no_such\n", "2: aioexec has no `contrib.no_such`"),
        ("def f(s, xs):\n    return map(lambda x: tf.Session().run(x) + 1, xs)\n",
         "3: a lambda cannot await `tf.Session().run(…)`: make it an `async def` function"),
        ("import signal\ndef f(sess):\n    sess.run(1)\nsignal.signal(1, f)\n",
         "5: f is now `async`, and `signal.signal` does not await it"),
        ("class A:\n    def __len__(self):\n        return tf.Session().run(1)\n",
         "3: A.__len__ now has to await, but Python calls it by itself: call a coroutine method instead"),
        ("class A:\n    def step(self, sess):\n        sess.run(1)\ndef f(a):\n    a.step(1)\n",
         "6: `a.step(…)` was taken for A.step, which is now `async`: check it"),
        ("def timed(f):\n    return f\n@timed\ndef f(sess):\n    sess.run(1)\n",
         "4: f is now `async`: check that the decorator `timed` takes coroutine functions"),
        ("def f(sess):\n    yield sess.run(1)\n    return 2\n",
         "4: an `async` generator cannot return a value: pass it on in another way"),
        ("with tf.Session() as s:\n    from os import *\n    s.run(1)\n",
         "3: move `import *` out of the function: Python has it at the top only"),
    ],
)  # fmt: skip
def test_what_is_left_to_do_is_reported(text, message):
    result = port({"a.py": "import tensorflow as tf\n" + text})["a.py"]

    assert f"a.py:{message}" in [str(finding) for finding in result.findings]


def test_threads_of_coroutine_functions_become_tasks():
    text, findings = ported(
        """
        import threading

        def work(sess, number):
            sess.run(number)

        def start(sess):
            threads = [threading.Thread(target=work, args=(sess, i)) for i in range(2)]
            other = threading.Thread(target=print)
            job = lambda: work(sess, 3)
            threads.append(threading.Thread(target=job))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            other.join()
        """
    )

    assert findings == []
    assert "threads = [CoroutineThread(target=work, args=(sess, i)) for i in range(2)]" in text
    assert "other = threading.Thread(target=print)" in text
    assert "threads.append(CoroutineThread(target=job))" in text
    assert "thread.start()" in text
    assert "        await thread.join()" in text
    assert "    other.join()" in text


def test_objects_in_named_tuples_are_known():
    text, findings = ported(
        """
        import collections

        class Model:
            def eval(self, sess):
                return sess.run("loss")

        class Built(collections.namedtuple("Built", ("model", "graph"))):
            pass

        def build():
            return Built(model=Model(), graph=tf.Graph())

        def use(sess, name, x):
            built = build()
            name.decode("utf-8")
            return built.model.eval(sess) + x.step.eval(session=sess)
        """
    )

    assert findings == []
    assert "    name.decode(" in text
    assert "return await built.model.eval(sess) + await x.step.eval(session=sess)" in text


def test_classes_of_threads_become_classes_of_tasks():
    text, findings = ported(
        """
        from threading import Thread
        import time

        class Worker(Thread):
            def __init__(self, sess):
                Thread.__init__(self)
                self.sess = sess

            def run(self):
                self.sess.run("x")
                time.sleep(0.1)

        def start(sess):
            workers = [Worker(sess) for i in range(2)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            time.sleep(1)
        """
    )

    assert findings == []
    assert "class Worker(CoroutineThread):" in text
    assert "CoroutineThread.__init__(self)" in text
    assert "async def run(self):" in text
    assert "        await asyncio.sleep(0.1)" in text
    assert "workers = [Worker(sess) for i in range(2)]" in text
    assert "        worker.start()" in text
    assert "        await worker.join()" in text
    assert "    await asyncio.sleep(1)" in text


def test_unit_tests_and_applications_of_absl():
    text, findings = ported(
        """
        import unittest
        from absl import app

        class ModelTest(unittest.TestCase):
            def setUp(self):
                self.sess = tf.Session()
                self.sess.run("x")

            def test_value(self):
                self.assertEqual(self.sess.run("x"), 1)

        def main(argv):
            tf.Session().run("x")

        app.run(main)
        """
    )

    assert findings == []
    assert "class ModelTest(unittest.IsolatedAsyncioTestCase):" in text
    assert "async def asyncSetUp(self):" in text
    assert "async def test_value(self):" in text
    assert "app.run(lambda argv: asyncio.run(main(argv)))" in text


def test_a_module_that_runs_a_session_when_it_is_imported_is_reported():
    results = port(
        {
            "data.py": "import tensorflow as tf\nsess = tf.Session()\nvalue = sess.run('x')\n",
            "main.py": "import data\n\nprint(data.value)\n",
        }
    )

    assert results["data.py"].text == (
        "import asyncio\nimport aioexec as tf\nsess = tf.Session()\n\n\nasync def main():\n    global value\n"
        "    value = await sess.run('x')\n\n\nasyncio.run(main())\n"
    )
    assert [str(each) for each in results["data.py"].findings] == [
        "data.py:3: this runs when another file imports the module, perhaps in a running event loop: await it there instead"
    ]
