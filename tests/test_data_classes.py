"""`aioexec.data_classes.dataclass` agrees with the standard library's decorator in each supported option."""

import ast
import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import aioexec
from aioexec import data_classes

OPTIONS: list[dict[str, bool]] = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
]
Decorator = Callable[..., Callable[[type], Any]]


def of_fields(decorator: Decorator, options: dict[str, bool]) -> Any:
    @decorator(**options)
    class Example:
        """The properties of a class to compare."""

        one: int
        two: str = "two"
        three: list[int] = field(default_factory=list)
        hidden: int = field(default=4, repr=False, compare=False)
        _: KW_ONLY
        named: int = 5

        def total(self) -> int:
            return self.one + self.named

    return Example


def both(options: dict[str, bool]) -> tuple[Any, Any]:
    return of_fields(data_classes.dataclass, options), of_fields(dataclasses.dataclass, options)


def reported(call: Callable[[], Any]) -> object:
    """The result of a call, or the type and text of its exception."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "ask",
    [
        lambda made: repr(made(1, "b", named=7)),
        lambda made: repr(made(1)),
        lambda made: made(1).total(),
        lambda made: made(),
        lambda made: made(1, 2, 3, 4, 5),
        lambda made: made(1, nothing=2),
        lambda made: made(1, "b") == made(1, "b", hidden=0),
        lambda made: made(1, "b") == made(1, "c"),
        lambda made: made(1).__eq__(1),
        lambda made: len({hash(each) for each in (made(1, three=()), made(1, three=(), hidden=0))}),
        lambda made: made(1, three=()) in {made(1, three=())},
        lambda made: made(1).three is made(1).three,
        lambda made: setattr(made(1), "one", 2),
        lambda made: delattr(made(1), "one"),
        lambda made: hasattr(made(1), "__dict__"),
        lambda made: dataclasses.asdict(made(1)),
        lambda made: repr(dataclasses.replace(made(1), two="c")),
        lambda made: repr(copy.copy(made(1, "b"))),
        lambda made: repr(copy.deepcopy(made(1, "b"))),
        lambda made: [parameter.name for parameter in inspect.signature(made).parameters.values()],
        lambda made: [parameter.kind for parameter in inspect.signature(made).parameters.values()],
        lambda made: made.__match_args__,
        lambda made: (made.__doc__, made.__name__, made.__init__.__qualname__),
    ],
)
def test_a_class_does_what_the_standard_decorators_does(options, ask):
    ours, standard = both(options)

    assert reported(lambda: ask(ours)) == reported(lambda: ask(standard))


def test_a_hash_belongs_to_what_cannot_change():
    @data_classes.dataclass
    class Changing:
        value: int

    @data_classes.dataclass(frozen=True)
    class Fixed:
        value: int

    with pytest.raises(TypeError, match="unhashable type: 'Changing'"):
        hash(Changing(1))
    assert hash(Fixed(1)) == hash(Fixed(1))
    other: object = Changing(1)
    assert Fixed(1) != other


@pytest.mark.parametrize("decorator", [data_classes.dataclass, dataclasses.dataclass])
def test_methods_of_the_class_itself_stay(decorator):
    @decorator(frozen=True)
    class Own:
        value: int
        other: int = 0

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.value == other.value

        def __hash__(self) -> int:
            return 17

    made: Any = Own
    assert (repr(made(1)), hash(made(1)), made(1) == made(1, 2), made(1) == made(2)) == (
        "own",
        17,
        True,
        False,
    )


def base_and_derived(decorator: Decorator, frozen: bool) -> tuple[Any, Any]:
    @decorator(frozen=frozen, slots=True)
    class Base:
        first: int

    @decorator(frozen=frozen, slots=True)
    class Derived(Base):
        second: int
        sum: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.first + self.second)

    return Base, Derived


@pytest.mark.parametrize("decorator", [data_classes.dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("frozen", [False, True])
def test_fields_of_a_base_come_first_and_what_is_no_argument_is_set_afterwards(decorator, frozen):
    base, derived = base_and_derived(decorator, frozen)

    made = derived(1, 2)

    assert dataclasses.asdict(made) == {"first": 1, "second": 2, "sum": 3}
    assert made == derived(first=1, second=2)
    assert made != base(1)


def test_equality_of_one_field_is_that_of_a_tuple():
    @data_classes.dataclass(frozen=True)
    class Of:
        value: object

    nan = float("nan")

    assert Of(nan) == Of(nan)
    assert Of(nan) != Of(float("nan"))


def test_a_record_of_itself_is_shown():
    @data_classes.dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node

    assert repr(node).endswith("Node(next=...)")


@data_classes.dataclass(frozen=True, slots=True)
class Sent:
    """A record that is pickled: of a module, so that it is found again."""

    name: str
    values: tuple[int, ...] = ()


def test_a_frozen_slotted_record_is_pickled():
    sent = Sent("a", (1, 2))

    received = pickle.loads(pickle.dumps(sent))

    assert received == sent
    assert received is not sent
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        received.name = "b"


def test_what_is_no_field_has_no_slot():
    @data_classes.dataclass(slots=True)
    class Counted:
        made: "ClassVar[int]" = 3
        limit: ClassVar[int] = 4
        first: "int"
        _: "KW_ONLY"
        second: int = 2

    of_class: Any = Counted
    assert of_class.__slots__ == ("first", "second")
    assert (of_class.made, of_class.limit) == (3, 4)
    assert repr(of_class(1)).endswith("Counted(first=1, second=2)")


def test_the_classes_of_the_package_have_slots_for_their_fields():
    classes = {
        each
        for name, module in sys.modules.copy().items()
        if name.startswith("aioexec.")
        for each in vars(module).values()
        if isinstance(each, type) and "__dataclass_fields__" in vars(each) and "__slots__" in vars(each)
    }

    assert len(classes) > 100
    for each in classes:
        slots = [slot for base in reversed(each.__mro__) for slot in vars(base).get("__slots__", ())]
        assert slots == [field.name for field in dataclasses.fields(each)], each


@pytest.mark.parametrize(
    "use",
    [
        lambda base, derived: derived(1, 2).second,
        lambda base, derived: derived.__init__(object.__new__(derived), 1, 2),
        lambda base, derived: base.__init__(made := object.__new__(derived), 1) or made.first,
        lambda base, derived: object.__new__(derived) == 1,
        lambda base, derived: hash(object.__new__(base)),
        lambda base, derived: dataclasses.is_dataclass(derived),
        lambda base, derived: derived.__match_args__,
        lambda base, derived: (base(1), derived(1, 2)) == (base(1), derived(1, 2)),
    ],
)
def test_whatever_is_used_first_completes_the_class(use):
    ours = base_and_derived(data_classes.dataclass, True)
    standard = base_and_derived(dataclasses.dataclass, True)

    assert reported(lambda: use(*ours)) == reported(lambda: use(*standard))


@pytest.mark.slow
def test_the_package_has_one_decorator():
    """But for what a compiling child runs, which does not import the package."""
    root = Path(aioexec.__file__).parent
    others = [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*.py"))
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.ImportFrom)
        and statement.module == "dataclasses"
        and any(alias.name == "dataclass" for alias in statement.names)
    ]

    assert others == ["devices/jit/tiles.py"]
