"""Monty computes nothing wrongly in silence: it is right, or refused before anything runs (spec 5, P18)."""

from __future__ import annotations

import random

import pytest

from tests.helpers.tools.sandbox.support import box, run

pytestmark = pytest.mark.realtime

REFUSED = {
    "a truth value": "class A:\n    def __bool__(self): return False\n",
    "a length": "class A:\n    def __len__(self): return 0\n",
    "inequality": "class A:\n    def __ne__(self, other): return False\n",
    "slots": "class A:\n    __slots__ = ('x',)\n",
    "another constructor": "class A:\n    def __new__(cls): return 5\n",
    "a hook of attributes": "class A:\n    def __setattr__(self, name, value): pass\n",
    "an end": "def f():\n    class A:\n        def __del__(self): print('gone')\n",
}


@pytest.mark.spec("P18")
@pytest.mark.parametrize("gap", REFUSED)
async def test_a_special_method_that_would_be_passed_over_is_refused_before_the_run(gap: str) -> None:
    async with box("monty") as desk:
        result = await run(desk.session, "monty", f"open('/f', 'w').write('1')\n{REFUSED[gap]}")
    assert (result["exit_code"], result["files"]["created"]) == (1, [])
    assert "has no effect in this Python" in str(result["error"])


@pytest.mark.spec("P18")
async def test_floats_are_rounded_as_cpython_rounds_them() -> None:
    source = random.Random(7)
    numbers = [0.15, 2.675, -2.675, 1.005, 25.0, 35.0, -0.04, -0.0, 1e300, 5e-324, float("inf")]
    numbers += [source.uniform(-(10**size), 10**size) for size in (-5, 0, 1, 3, 6, 300) for _ in range(30)]
    numbers += [source.randint(-(10**6), 10**6) / 1000 for _ in range(60)]
    texts = [float.__repr__(number) for number in numbers]
    code = (
        f"print([round(float(one), n) for one in {texts} for n in (0, 1, 2, 3, 9, -1, -3)])\n(round(2.5), round(7, -1))"
    )
    async with box("monty") as desk:
        result = await run(desk.session, "monty", code)
    assert (
        result["stdout"] == f"{[round(number, digits) for number in numbers for digits in (0, 1, 2, 3, 9, -1, -3)]}\n"
    )
    assert result["value"] == "(2, 10)"


@pytest.mark.spec("P18")
async def test_whether_a_built_in_has_an_attribute_is_not_answered_wrongly() -> None:
    async with box("monty") as desk:
        custom = await run(desk.session, "monty", "class A:\n    x = 1\n(hasattr(A(), 'x'), hasattr(A(), 'y'))")
        built_in = await run(desk.session, "monty", "hasattr([], 'append')")
    assert custom["value"] == "(True, False)"
    assert "cannot be told here" in str(built_in["error"])
