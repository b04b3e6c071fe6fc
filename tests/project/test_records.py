"""`base.records.dataclass` gives what the standard library's gives, class by class."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar

import pytest

from trilobite.base import records


def plain(make: Any) -> Any:
    @make
    class Point:
        x: int
        y: float = 2.5
        names: list[str] = field(default_factory=list)
        kinds: ClassVar[int] = 7

    return Point


def frozen(make: Any) -> Any:
    @make(frozen=True)
    class Point:
        """A point with one."""

        x: int
        y: float = 2.5
        note: str = field(default="", compare=False)
        text: str = field(default="t", hash=False, repr=False)

        @cached_property
        def twice(self) -> int:
            return 2 * self.x

    return Point


def by_identity(make: Any) -> Any:
    @make(eq=False)
    class Point:
        x: int
        y: float = 2.5

    return Point


def with_rules_of_its_own(make: Any) -> Any:
    @make(frozen=True)
    class Point:
        x: int
        y: float = 2.5

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "a point"

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x + 1)

    return Point


def set_later(make: Any) -> Any:
    @make
    class Point:
        x: int
        y: int = field(init=False)

        def __post_init__(self) -> None:
            self.y = self.x * 3

    return Point


def single(make: Any) -> Any:
    @make(frozen=True)
    class Point:
        x: Any

    return Point


def without_fields(make: Any) -> Any:
    @make(frozen=True)
    class Point:
        pass

    return Point


KINDS = (plain, frozen, by_identity, with_rules_of_its_own, set_later, single, without_fields)


def outcome(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, or the kind and the text of what it raises."""
    try:
        return fn(*args, **kwargs)
    except Exception as raised:
        return type(raised), str(raised)


def seen(cls: Any) -> list[Any]:
    """All that tells one class from the other, on a few calls."""
    told: list[Any] = [
        [(p.name, p.kind, repr(p.default)) for p in inspect.signature(cls).parameters.values()]
    ]
    if cls.__dataclass_params__.eq:
        told.append(cls.__hash__ is None)
    told += [cls.__match_args__, cls.__dataclass_params__.frozen, cls.__dataclass_params__.eq]
    for args in ((), (1,), (1, 2.5), (1, 2.5, ["a"]), (1, 2, 3, 4, 5)):
        one, other = outcome(cls, *args), outcome(cls, *args)
        told.append(repr(one))
        if type(one) is not cls:
            continue
        told += [one == other, one != other, one == 3, outcome(lambda x: hash(x) == hash(x), one)]
        told += [outcome(setattr, one, name, 9) for name in ("x", "zzz")] + [repr(one)]
        told += [outcome(delattr, one, name) for name in ("zzz", "none")]
        told += [outcome(delattr, one, "x"), repr(outcome(dataclasses.asdict, other))]
        told += [repr(outcome(dataclasses.replace, other, x=4)), repr(copy.copy(other))]
    told.append(repr(outcome(cls, x=1, z=2)))
    return told


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_class_behaves_as_the_standard_librarys(kind: Any) -> None:
    assert seen(kind(records.dataclass)) == seen(kind(dataclasses.dataclass))


def test_fields_left_out_of_comparison_and_hash() -> None:
    cls = frozen(records.dataclass)
    assert cls(1, note="a") == cls(1, note="b") and hash(cls(1, note="a")) == hash(cls(1, note="b"))
    assert cls(1, text="a") != cls(1, text="b") and hash(cls(1, text="a")) == hash(cls(1, text="b"))
    assert cls(3).twice == 6


def test_values_are_compared_as_tuples_are() -> None:
    cls, nan = single(records.dataclass), float("nan")
    assert cls(nan) == cls(nan) and cls(nan) != cls(float("nan"))
    assert cls(1) != single(records.dataclass)(1)


def test_a_list_of_its_own_for_each() -> None:
    cls = plain(records.dataclass)
    first, second = cls(1), cls(1)
    first.names.append("a")
    assert second.names == []


def test_an_object_that_holds_itself_is_shown() -> None:
    cls = plain(records.dataclass)
    one = cls(1)
    one.names.append(one)
    assert "..." in repr(one)


def test_classes_derived_from_one() -> None:
    base = frozen(records.dataclass)

    @records.dataclass(frozen=True)
    class More(base):  # type: ignore[misc, valid-type]
        z: int = 3

    assert [f.name for f in dataclasses.fields(More)] == ["x", "y", "note", "text", "z"]
    assert More(1, z=2) == More(1, z=2) != More(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        More(1).z = 4
    with pytest.raises(TypeError):
        records.dataclass(type("Loose", (base,), {"__annotations__": {"w": int}, "w": 0}))

    class Open(base):  # type: ignore[misc, valid-type]
        pass

    one = Open(1)
    one.more = 5
    assert one.more == 5
    del one.more
    for change in (lambda: setattr(one, "x", 5), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


@records.dataclass(frozen=True)
class Known:
    a: int
    b: tuple[int, ...] = ()


@records.dataclass(slots=True)
class Slotted:
    a: int


def test_it_is_pickled_and_may_have_slots() -> None:
    assert pickle.loads(pickle.dumps(Known(1, (2,)))) == Known(1, (2,))
    assert not hasattr(Slotted(1), "__dict__") and Slotted(1) == Slotted(1)
