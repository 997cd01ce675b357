from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from capset import Capability, DefinitionError, parameterised
from capset.errors import CapabilityCycle


@parameterised
def storage(scope: object = "session", *tags: object, cached: object = False, **more: object) -> Capability:
    """Keep things."""
    return Capability("storage")


def run_at_once(*makers: Callable[[], object]) -> None:
    threads = [threading.Thread(target=make, daemon=True) for make in makers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads), "they wait for each other"


@pytest.mark.spec("C8", "C32")
def test_equal_arguments_give_the_same_object_however_they_are_given() -> None:
    assert storage() is storage("session") is storage(scope="session") is storage("session", cached=False)
    assert storage("user", a=1, b=2) is storage(scope="user", b=2, a=1)
    assert storage("user") is not storage("session")
    assert storage.__name__ == "storage"
    assert storage.__doc__ == "Keep things."


@pytest.mark.spec("C8", "C32")
@pytest.mark.parametrize(
    ("first", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), (((1,),), ((1.0,),)), (frozenset({1}), frozenset({True}))],
)
def test_arguments_are_told_apart_by_type_too(first: Any, other: Any) -> None:
    assert storage(first) is storage(first)
    assert storage(first) is not storage(other)
    assert storage("x", first) is not storage("x", other)
    assert storage(cached=first) is not storage(cached=other)
    assert storage(more=first) is not storage(more=other)


@pytest.mark.spec("C32")
def test_nothing_is_forgotten() -> None:
    numbers = [id(storage(number)) for number in range(1000)]
    gc.collect()
    assert [id(storage(number)) for number in range(1000)] == numbers
    assert storage(float("nan")) is storage(float("nan"))


@pytest.mark.spec("C32")
def test_what_cannot_be_remembered_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"storage\('x', \[1\]\): the arguments .* must be hashable"):
        storage("x", [1])
    with pytest.raises(DefinitionError, match="must be hashable"):
        storage(cached={})

    @parameterised
    def none(number: int) -> Any:
        return None

    with pytest.raises(DefinitionError, match=r"none\(1\) must return a Capability; it returned None"):
        none(1)


@pytest.mark.spec("C8")
def test_a_capability_that_needs_itself_is_refused_with_the_whole_chain() -> None:
    @parameterised
    def notes(name: str) -> Capability:
        return Capability(f"notes:{name}", uses=[files(name)])

    @parameterised
    def files(name: str) -> Capability:
        return Capability(f"files:{name}", uses=[notes(name)])

    with pytest.raises(CapabilityCycle, match=r"needs itself: notes\('x'\) → files\('x'\) → notes\('x'\)$"):
        notes("x")


@pytest.mark.spec("C11")
def test_capabilities_without_end_are_refused() -> None:
    @parameterised
    def count(number: int) -> Capability:
        return Capability(f"count:{number}", uses=[count(number + 1)])

    with pytest.raises(DefinitionError, match=r"more than 100 capabilities are made inside each other: count\(0\) → "):
        count(0)


def test_a_maker_that_fails_is_asked_again() -> None:
    calls: list[int] = []

    @parameterised
    def flaky(number: int) -> Capability:
        calls.append(number)
        if len(calls) == 1:
            raise RuntimeError("not yet")
        return Capability("flaky")

    with pytest.raises(RuntimeError, match="not yet"):
        flaky(1)
    assert flaky(1) is flaky(1)
    assert calls == [1, 1]


def test_wrong_arguments_fail_as_those_of_a_function_do() -> None:
    @parameterised
    def build(scope: str) -> Capability:
        return Capability("made")

    with pytest.raises(TypeError, match="missing a required argument: 'scope'"):
        build(scop="x")  # pyright: ignore[reportCallIssue]


def test_many_threads_get_one_object() -> None:
    ready, capabilities = threading.Barrier(16), list[Capability]()

    @parameterised
    def build(name: str) -> Capability:
        return Capability("made")

    def ask() -> None:
        ready.wait()
        capabilities.append(build("x"))

    run_at_once(*[ask] * 16)
    assert len(capabilities) == 16
    assert len(set(capabilities)) == 1


def test_two_functions_that_use_each_other_may_be_called_by_two_threads_at_once() -> None:
    inside = threading.Barrier(2)

    @parameterised
    def first(leaf: bool) -> Capability:
        return Capability("first") if leaf else branch("first", other)

    @parameterised
    def other(leaf: bool) -> Capability:
        return Capability("other") if leaf else branch("other", first)

    def branch(name: str, make: Callable[[bool], Capability]) -> Capability:
        meet()
        return Capability(f"{name}:branch", uses=[make(True)])

    def meet() -> None:
        try:
            inside.wait(0.2)
        except threading.BrokenBarrierError:
            inside.reset()

    run_at_once(lambda: first(False), lambda: other(False))
