"""`aioexec port` on small programs: what they become, and what it leaves to be done by hand."""

from __future__ import annotations

import textwrap

import pytest

from aioexec.porting.port import port

HEAD = "import tensorflow as tf\n"


def ported(text: str) -> tuple[str, list[str]]:
    """A program after the port, without its first line, and the findings."""
    result = port({"program.py": HEAD + textwrap.dedent(text).lstrip("\n")})["program.py"]
    head, _, rest = result.text.partition("import aioexec as tf\n")
    added = {
        "import asyncio\n",
        "import itertools\n",
        "from aioexec.porting.threads import CoroutineThread\n",
    }
    assert set(head.splitlines(keepends=True)) <= added
    return rest, [str(finding) for finding in result.findings]


def check(before: str, after: str) -> None:
    assert ported(before) == (textwrap.dedent(after).lstrip("\n"), [])


def inside(before: str, after: str) -> None:
    """Check a statement of a function."""
    template = "def f(x, sess, saver, coord, xs):\n    {}\n"
    check(template.format(before), "async " + template.format(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return sess.run(x)", "return await sess.run(x)"),
        ("return sess.run(x)[0]", "return (await sess.run(x))[0]"),
        ("return (sess.run(x))[0]", "return (await sess.run(x))[0]"),
        ("sess.run(x).mean()", "(await sess.run(x)).mean()"),
        ("a = -sess.run(x) ** 2", "a = -await sess.run(x) ** 2"),
        ("return [sess.run(x) for x in xs]", "return [await sess.run(x) for x in xs]"),
        ("return sum(sess.run(x) for x in xs)", "return sum([await sess.run(x) for x in xs])"),
        ("return max((sess.run(x) for x in xs), 1)", "return max(([await sess.run(x) for x in xs]), 1)"),
        ("print(f'{sess.run(x)} and é {sess.run(xs)}')", "print(f'{await sess.run(x)} and é {await sess.run(xs)}')"),
        ("é = sess.run(x); sess.run(x)  # é", "é = await sess.run(x); await sess.run(x)  # é"),
        ("return sess.run(x) if x.eval() else sess.run(sess.run(x))",
         "return await sess.run(x) if await x.eval() else await sess.run(await sess.run(x))"),
        ("saver.save(sess, 'x')", "await saver.save(sess, 'x')"),
        ("coord.join(xs)", "await coord.join(xs)"),
        ("x.restore(sess, 'path')", "await x.restore(sess, 'path')"),
        ("return tf.train.global_step(sess, x)", "return await tf.train.global_step(sess, x)"),
        ("with tf.Session() as s: s.run(x)", "async with tf.Session() as s: await s.run(x)"),
        ("with sess: sess.run(x)", "async with sess: await sess.run(x)"),
        ("with sess.as_default(): x.eval()", "with sess.as_default(): await x.eval()"),
        ("s = tf.train.MonitoredSession()", "s = await tf.train.MonitoredSession()"),
        ("w = tf.summary.FileWriter('x'); w.close()", "w = tf.summary.FileWriter('x'); await w.close()"),
        ("w = tf.Variable(1.0); w.load(2.0, sess)", "w = tf.Variable(1.0); await w.load(2.0, sess)"),
        ("w = tf.Variable(1.0); w.initializer.run()", "w = tf.Variable(1.0); await w.initializer.run()"),
        ("g = sess.make_callable(x); g = tf.Session().make_callable(x); g()",
         "g = sess.make_callable(x); g = tf.Session().make_callable(x); await g()"),
        ("run = tf.Session().run; run(x)", "run = tf.Session().run; await run(x)"),
    ],
)  # fmt: skip
def test_what_is_awaitable_is_awaited(before, after):
    inside(before, after)


@pytest.mark.parametrize(
    "statement",
    [
        "subprocess.run(['ls'])",
        "pickle.load(open('x')).close()",
        "', '.join(xs)",
        "open(x).close()",
        "app.run()",
        "eval('1')",
        "numpy.save('x', x)",
        "model.save('x')",
    ],
)
def test_what_only_looks_like_it_stays(statement):
    text = f"import subprocess, pickle, numpy, app, model\n\n\ndef f(x, xs):\n    {statement}\n"

    check(text, text)


def test_comments_and_layout_stay_as_they_were():
    check(
        """
        def evaluate( sess,data ) :   # odd
            '''Evaluates.'''

            return sess.run( loss,
                             {x:data} ) # first
        """,
        """
        async def evaluate( sess,data ) :   # odd
            '''Evaluates.'''

            return await sess.run( loss,
                             {x:data} ) # first
        """,
    )


def test_line_endings_and_a_missing_last_one_stay():
    result = port({"a.py": "import tensorflow as tf\r\nwith tf.Session() as s:\r\n  s.run(x)"})["a.py"]

    assert result.text == (
        "import asyncio\r\nimport aioexec as tf\r\n\r\n\r\nasync def main():\r\n  async with tf.Session() as s:\r\n"
        "    await s.run(x)\r\n\r\n\r\nasyncio.run(main())\r\n"
    )


def test_callers_become_coroutines_too():
    check(
        """
        def step(sess):
            return sess.run(loss)

        def epoch(sess, number):
            return [step(sess) for _ in range(number)]

        def unrelated():
            return 1
        """,
        """
        async def step(sess):
            return await sess.run(loss)

        async def epoch(sess, number):
            return [await step(sess) for _ in range(number)]

        def unrelated():
            return 1
        """,
    )


def test_an_object_whose_constructor_awaits_is_awaited():
    check(
        """
        class Model(object):
            # makes the session
            def __init__(self, size):
                self.sess = tf.Session()
                self.sess.run(size)

        class Larger(Model):
            def __init__(self):
                super().__init__(2)

        def make():
            return Larger()
        """,
        """
        class Model(object):
            async def __new__(cls, *args, **kwargs):
                self = super().__new__(cls)
                await self.__init__(*args, **kwargs)
                return self

            # makes the session
            async def __init__(self, size):
                self.sess = tf.Session()
                await self.sess.run(size)

        class Larger(Model):
            async def __init__(self):
                await super().__init__(2)

        async def make():
            return await Larger()
        """,
    )
