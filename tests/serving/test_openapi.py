"""The OpenAPI description has every route, and what it says is true of requests that schemathesis makes from it."""

import asyncio
import json

import hypothesis
import jsonschema
import numpy as np
import pytest
import requests
import schemathesis
from schemathesis import GenerationMode

import aioexec as ax
from aioexec.saved_model.signature import Signature
from aioexec.serving import application
from aioexec.serving.openapi import description
from tests.serving.memory_connection import MemoryConnection, connections

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")
    N = ax.placeholder(ax.int32, [None], name="n")
    TEXT = ax.placeholder(ax.string, [None], name="text")
    Y = ax.placeholder(ax.float32, [None], name="y")
    SCORES = ax.placeholder(ax.float32, [None, 2], name="scores")


class Computing:
    """A session that computes the values of fetches from those of feeds with NumPy: it belongs to no loop."""

    def __init__(self, compute):
        self.compute = compute

    async def run(self, fetches, feed_dict=None):
        values = self.compute(*feed_dict.values())
        return [values[tensor] for tensor in fetches]


def signature(inputs, outputs, compute, method="predict"):
    return Signature(
        "serving_default", inputs, outputs, Computing(compute), method_name=f"tensorflow/serving/{method}"
    )


MODELS = {
    "sums": signature({"x": X}, {"y": Y}, lambda x: {Y: x.sum(axis=1)}),
    "mixed": signature({"n": N, "text": TEXT}, {"n": N, "text": TEXT}, lambda n, text: {N: n, TEXT: text}),
    "classes": signature(
        {"inputs": TEXT},
        {"scores": SCORES},
        lambda inputs: {SCORES: np.array([[len(each), 1.0] for each in inputs]).reshape(-1, 2)},
        "classify",
    ),
    "numbers": signature(
        {"inputs": TEXT},
        {"outputs": Y},
        lambda inputs: {Y: np.array([float(len(each)) for each in inputs])},
        "regress",
    ),
}
DESCRIPTION = description(application(MODELS))
ENDLESS = {"/page/live"}
"""Routes whose reply has no end."""


def test_every_route_has_a_summary():
    unsaid = [
        f"{method} {path}"
        for path, operations in DESCRIPTION["paths"].items()
        for method, operation in operations.items()
        if not operation["summary"]
    ]

    assert unsaid == []


def with_names_that_exist():
    """The description for requests that mostly find their model."""
    made = json.loads(json.dumps(DESCRIPTION))
    for operations in made["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "name":
                    parameter["schema"]["enum"] = [*MODELS]
                if parameter["name"] == "version":
                    parameter["schema"] = {"enum": ["1", "2"]}
    return made


SCHEMA = schemathesis.openapi.from_dict(with_names_that_exist())
OPERATIONS = {
    operation.label: operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations())
    if operation.path not in ENDLESS
}


MODES = [
    (label, mode)
    for label, operation in OPERATIONS.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or operation.path_parameters or operation.body
]
"""Requests that are as described, and others where there is something to be wrong."""


def bytes_of(case):
    """The bytes of a request."""
    made = requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
    body = made.body or b""
    body = body.encode() if isinstance(body, str) else body
    lines = [
        f"{made.method} {made.path_url} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + body


async def answered(requests):
    async with connections(MODELS) as server:
        answers = []
        for request in requests:
            connection = MemoryConnection(server())
            connection.send(request)
            answers += await connection.answers()
            connection.leave()
        return answers


def check(operation, answer):
    """Raise if an answer is none of those that are described."""
    assert answer.status < 500, answer
    replies = DESCRIPTION["paths"][operation.path].get(operation.method.lower(), {}).get("responses", {})
    reply = replies.get(str(answer.status)) or replies["default"]
    if "content" in reply and answer.body:
        schema = {**reply["content"]["application/json"]["schema"], "components": DESCRIPTION["components"]}
        jsonschema.validate(answer.json, schema)


def fuzz(operation, mode, examples):
    @hypothesis.settings(
        max_examples=examples,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(operation.as_strategy(generation_mode=mode))
    def run(case):
        with asyncio.Runner() as runner:
            answers = runner.run(answered([bytes_of(case)]))
        assert len(answers) == 1
        check(operation, answers[0])

    run()


@pytest.mark.slow
@pytest.mark.parametrize(("label", "mode"), MODES)
def test_answers_to_requests_made_from_the_description_are_as_described(label, mode):
    fuzz(OPERATIONS[label], mode, examples=5)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("label", "mode"), MODES)
def test_answers_to_many_requests_made_from_the_description_are_as_described(label, mode):
    fuzz(OPERATIONS[label], mode, examples=500)
