"""Containers of named resources, separated by type."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aioexec.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from aioexec.resources.manager import ResourceManager, place_of, resource_of_handle


class Queue:
    name: str
    device: str


class Table:
    pass


@pytest.mark.behaviour(128)
def test_what_was_created_is_found_until_it_is_deleted():
    resources, queue = ResourceManager(), Queue()

    resources.create("", "q", queue)
    assert resources.lookup(Queue, "", "q") is queue
    assert resources.lookup(Queue, "localhost", "q") is queue
    resources.delete(Queue, "", "q")

    with pytest.raises(NotFoundError, match=r"localhost/q/Queue does not exist"):
        resources.lookup(Queue, "", "q")
    with pytest.raises(NotFoundError):
        resources.delete(Queue, "", "q")


@pytest.mark.behaviour(128)
def test_a_name_is_taken_once_a_type():
    resources = ResourceManager()
    resources.create("", "x", Queue())

    resources.create("", "x", Table())
    with pytest.raises(AlreadyExistsError, match="localhost/x"):
        resources.create("", "x", Queue())


@pytest.mark.behaviour(128)
def test_what_is_looked_up_or_created_is_made_once():
    resources = ResourceManager()
    made = [resources.lookup_or_create(Queue, "c", "q", Queue) for _ in range(3)]

    assert made[0] is made[1] is made[2]
    assert resources.lookup(Queue, "c", "q") is made[0]


@pytest.mark.behaviour(128)
def test_containers_are_cleaned_up_one_by_one():
    resources = ResourceManager()
    resources.create("", "q", Queue())
    resources.create("other", "q", Queue())

    resources.cleanup("other")

    with pytest.raises(NotFoundError, match="other/q"):
        resources.lookup(Queue, "other", "q")
    resources.lookup(Queue, "", "q")
    resources.cleanup("never made")
    resources.clear()
    with pytest.raises(NotFoundError):
        resources.lookup(Queue, "", "q")


@pytest.mark.behaviour(129)
@pytest.mark.parametrize("name", ["/etc", "two words", "tab\t"])
def test_bad_container_names_are_refused(name: str):
    with pytest.raises(InvalidArgumentError, match="container contains invalid characters"):
        ResourceManager().create(name, "q", Queue())


def test_a_resource_that_cannot_be_made_leaves_nothing():
    resources = ResourceManager()

    def fail() -> Queue:
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        resources.lookup_or_create(Queue, "", "q", fail)
    with pytest.raises(NotFoundError):
        resources.lookup(Queue, "", "q")


@pytest.mark.behaviour(128)
def test_resources_of_one_name_are_apart_by_type_and_container():
    resources = ResourceManager()
    for container in ("", "other"):
        resources.create(container, "x", Queue())
        resources.create(container, "x", Table())

    found = {id(resources.lookup(kind, place, "x")) for kind in (Queue, Table) for place in ("", "other")}

    assert len(found) == 4
    with pytest.raises(AlreadyExistsError):
        resources.create("other", "x", Table())
    resources.cleanup("other")
    with pytest.raises(NotFoundError):
        resources.lookup(Table, "other", "x")
    resources.lookup(Table, "", "x")


@pytest.mark.behaviour(128)
def test_threads_that_look_up_or_create_at_once_get_the_same_resource():
    resources, threads = ResourceManager(), 8
    together = threading.Barrier(threads)

    def find(_: int) -> Queue:
        together.wait()
        return resources.lookup_or_create(Queue, "c", "q", Queue)

    with ThreadPoolExecutor(threads) as pool:
        found = set(pool.map(find, range(threads)))

    assert len(found) == 1


# Names


def attrs(container: str = "", shared_name: str = "") -> dict[str, str]:
    return {"container": container, "shared_name": shared_name}


@pytest.mark.behaviour(129)
def test_a_shared_name_comes_first_then_the_nodes_name_if_it_may_be_shared_then_one_of_its_own():
    assert place_of(attrs("c", "s"), "node") == ("c", "s")
    assert place_of(attrs("", "s"), "node", shared_by_node_name=True) == ("", "s")
    assert place_of(attrs(), "node", shared_by_node_name=True) == ("", "node")

    own, other = place_of(attrs(), "node"), place_of(attrs(), "node")
    assert own != other
    assert own.name.startswith("_")
    assert own.name.endswith("_node")


@pytest.mark.behaviour(129)
@pytest.mark.parametrize("container", ["a", "a-b", "a/b", ".a", "A9."])
def test_containers_may_be_named_so(container: str):
    assert place_of(attrs(container), "node").container == container


@pytest.mark.behaviour(129)
@pytest.mark.parametrize("container", ["a_b", "_a", "/a", "-a", "two words", b"\xff"])
def test_containers_may_not_be_named_so(container: str | bytes):
    with pytest.raises(InvalidArgumentError, match="container contains invalid characters"):
        place_of(attrs(container), "node")


@pytest.mark.behaviour(129)
def test_a_shared_name_is_never_like_a_private_one():
    with pytest.raises(InvalidArgumentError, match="shared_name cannot start with '_'"):
        place_of(attrs(shared_name="_1_q"), "node")


# Handles


def test_a_handle_is_the_resource_bare_or_in_an_array():
    queue = Queue()
    boxed = np.empty((), object)
    boxed[()] = queue

    assert resource_of_handle(Queue, queue, "cpu") is queue
    assert resource_of_handle(Queue, boxed, "cpu") is queue


@pytest.mark.behaviour(130)
def test_a_handle_of_another_type_or_device_is_refused():
    queue = Queue()
    queue.name, queue.device = "q", "cpu:0"

    assert resource_of_handle(Queue, queue, "cpu:0") is queue
    with pytest.raises(
        InvalidArgumentError, match="using the wrong type: expected a Table, the handle points to 'q'"
    ):
        resource_of_handle(Table, queue, "cpu:0")
    with pytest.raises(InvalidArgumentError, match="'q' located in device cpu:0 from device cpu:1"):
        resource_of_handle(Queue, queue, "cpu:1")
    with pytest.raises(InvalidArgumentError, match="using the wrong type"):
        resource_of_handle(Queue, np.zeros(()), "cpu:0")
