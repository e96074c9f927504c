"""The page in a real browser: its form answers as NumPy does, its plots move, its graph opens; by mouse and by keyboard."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from PIL import Image

import aioexec as ax
from aioexec.distributed.security.security import Security
from aioexec.saved_model.signature import Signature
from aioexec.serving import serve
from aioexec.serving.page import live
from tests.serving.page.browser import keep_screenshot, needs_browser, visiting

pytestmark = [needs_browser, pytest.mark.network, pytest.mark.slow]

SIZE, CLASSES = 8, 5
TOKEN = "a-token-of-sufficient-length-0123456789"
WEIGHTS = np.random.default_rng(7).normal(size=(SIZE * SIZE, CLASSES)).astype(np.float32)
PIXELS = np.random.default_rng(8).integers(0, 256, (SIZE, SIZE), np.uint8)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def build():
    """A classifier of images with a scope of 40 nodes, and a sum of arrays; in one graph."""
    with ax.Graph().as_default() as graph:
        images = ax.placeholder(ax.float32, [None, SIZE, SIZE, 1], name="images")
        with ax.name_scope("classifier"):
            logits = ax.matmul(ax.reshape(images, [-1, SIZE * SIZE]), ax.constant(WEIGHTS))
            for step in range(40):
                logits = ax.identity(logits, name=f"step_{step}")
        scores = ax.nn.softmax(logits, name="scores")
        classes = ax.argmax(logits, 1, name="classes")
        a = ax.placeholder(ax.float64, [None, 3], name="a")
        b = ax.placeholder(ax.int32, [3], name="b")
        total = ax.add(a, ax.cast(b, ax.float64), name="total")
    return (
        graph,
        {"images": images},
        {"scores": scores, "classes": classes},
        {"a": a, "b": b},
        {"total": total},
    )


@pytest.fixture
async def models(monkeypatch):
    monkeypatch.setattr(live, "INTERVAL", 0.1)
    graph, images, scores, arrays, totals = build()
    async with ax.Session(graph=graph) as session:
        models = {
            "classifier": Signature("serving_default", images, scores, session),
            "sums": Signature("serving_default", arrays, totals, session),
        }
        yield models


@pytest.fixture
async def server(models):
    async with serve(models) as server:
        yield server


def output(page, name):
    """The value of an output, as the page shows it."""
    return np.array(json.loads(page.locator(f"pre[data-output={name}]").inner_text()))


def line_of(page, plot):
    return page.locator(f"#{plot} path.line-0").get_attribute("d")


def wait_until_plots_move(page):
    for plot in ("throughput", "latency", "lag"):
        page.wait_for_function(
            "([plot, before]) => document.querySelector(`#${plot} path.line-0`).getAttribute('d') !== before",
            arg=[plot, line_of(page, plot)],
        )


async def test_a_person_tries_models_and_sees_what_happens(server, tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "digit.png")
    rows = np.random.default_rng(9).normal(size=(4, 3))
    np.save(tmp_path / "rows.npy", rows)

    def visit():
        with visiting(server.url) as visit:
            page = visit.page
            page.get_by_role("status").filter(has_text="Live").wait_for()
            assert page.get_by_role("button", name="classifier").get_attribute("aria-current") == "true"

            page.get_by_label("Choose an image…").set_input_files(tmp_path / "digit.png")
            page.get_by_text("digit.png is sent").wait_for()
            page.get_by_role("button", name="Run", exact=True).click()
            page.get_by_role("heading", name="Answer").wait_for()
            logits = np.round(PIXELS.reshape(1, -1) / 255, 3).astype(np.float32) @ WEIGHTS
            np.testing.assert_allclose(output(page, "scores"), softmax(logits), rtol=1e-4, atol=1e-6)
            assert output(page, "classes").tolist() == logits.argmax(axis=1).tolist()
            wait_until_plots_move(page)
            page.get_by_role("img", name="Throughput of the last two minutes; now").wait_for()
            keep_screenshot(visit, tmp_path / "form.png")

            page.get_by_role("button", name="Run and record a timeline").click()
            page.get_by_role("img", name="Timeline of").wait_for()
            page.get_by_role("rowheader", name="classifier/MatMul").wait_for()
            keep_screenshot(visit, tmp_path / "timeline.png")

            page.get_by_role("tab", name="Graph").click()
            page.get_by_role("button", name="Scope classifier,").click()
            page.get_by_role("button", name="MatMul classifier/MatMul").click()
            page.get_by_text("float32 (?, 5)").wait_for()
            keep_screenshot(visit, tmp_path / "graph.png")

            page.get_by_role("button", name="sums").click()
            page.get_by_role("tab", name="Try").click()
            page.locator("#input-0-file").set_input_files(tmp_path / "rows.npy")
            page.get_by_text("rows.npy is sent").wait_for()
            page.get_by_label("b, as JSON").fill("[1, 2.5, 3]")
            page.get_by_role("button", name="Run", exact=True).click()
            page.get_by_role("alert").filter(has_text="input 'b'").wait_for()
            page.get_by_label("b, as JSON").fill("[1, 2, 3]")
            page.get_by_role("button", name="Run", exact=True).click()
            page.get_by_role("heading", name="Answer").wait_for()
            np.testing.assert_allclose(output(page, "total"), rows + [1, 2, 3])
            return visit

    seen = await asyncio.to_thread(visit)

    outside = [url for url in seen.requests if not url.startswith((f"{server.url}/", "blob:"))]
    assert outside == []
    # The browser itself reports the refused request, which was meant.
    assert [text for text in seen.complaints if "400 (Bad Request)" not in text] == []


async def test_the_keyboard_alone_suffices_in_the_dark_with_a_token(models, tmp_path):
    def visit(url):
        with visiting(url, dark=True) as visit:
            page, press = visit.page, visit.page.keyboard.press
            page.get_by_role("dialog", name="Token").wait_for()
            page.keyboard.type(TOKEN)
            press("Enter")
            page.get_by_role("button", name="sums").wait_for()

            def tab_to(role, name, *, exact=False):
                wanted = page.get_by_role(role, name=name, exact=exact)
                for _ in range(40):
                    press("Tab")
                    if wanted.evaluate("element => element === document.activeElement"):
                        return wanted
                raise AssertionError(f"Tab does not reach the {role} {name!r}")

            tab_to("link", "Skip to the models")
            press("Enter")
            tab_to("button", "sums")
            press("Enter")
            tab_to("textbox", "a, as JSON")
            press("Control+a")
            page.keyboard.type("[[1, 2, 3], [4, 5, 6]]")
            tab_to("textbox", "b, as JSON")
            press("Control+a")
            page.keyboard.type("[10, 20, 30]")
            tab_to("button", "Run", exact=True)
            press("Enter")
            page.get_by_role("heading", name="Answer").wait_for()
            assert output(page, "total").tolist() == [[11, 22, 33], [14, 25, 36]]

            press("Shift+Tab")  # from the button back, past the fields, to the tabs
            for _ in range(40):
                if page.get_by_role("tab", name="Try").evaluate("tab => tab === document.activeElement"):
                    break
                press("Shift+Tab")
            press("ArrowRight")
            page.get_by_role("group", name="Graph", exact=True).wait_for()
            for _ in range(20):
                press("Tab")
                if page.evaluate("document.activeElement.getAttribute('role') === 'button'"):
                    break
            focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
            press("ArrowDown")
            assert page.evaluate("document.activeElement.getAttribute('aria-label')") not in (None, focused)
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert background == "rgb(18, 21, 27)"
            keep_screenshot(visit, tmp_path / "graph-dark.png")
            return visit

    async with serve(models, security=Security(token=TOKEN)) as server:
        seen = await asyncio.to_thread(visit, server.url)

    # The browser itself reports the request without a token.
    assert [text for text in seen.complaints if "401 (Unauthorized)" not in text] == []
