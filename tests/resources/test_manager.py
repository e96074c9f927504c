"""Containers of named resources, one type apart from another."""

from __future__ import annotations

import pytest

from aioexec.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from aioexec.resources.manager import ResourceManager


class Queue:
    pass


class Table:
    pass


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


def test_a_name_is_taken_once_a_type():
    resources = ResourceManager()
    resources.create("", "x", Queue())

    resources.create("", "x", Table())
    with pytest.raises(AlreadyExistsError, match="localhost/x"):
        resources.create("", "x", Queue())


def test_what_is_looked_up_or_created_is_made_once():
    resources = ResourceManager()
    made = [resources.lookup_or_create(Queue, "c", "q", Queue) for _ in range(3)]

    assert made[0] is made[1] is made[2]
    assert resources.lookup(Queue, "c", "q") is made[0]


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
