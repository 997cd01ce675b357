"""A suite is worth what it finds: for every check, capabilities that break its promise, and one that breaks none."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from capset import Capability, DefinitionError, tool
from capset.extras import install_command
from capset_testing import capability_suite
from capset_testing.capability_suite import Check, Example
from tests.helpers.testing.capability_suite.leaking import BROKEN
from tests.helpers.testing.capability_suite.sound import EXAMPLES, Rules, Settings, ruled, sound, ticking

BAD = [pytest.param(check, *case, id=f"{check}-{case[0].name}") for check, cases in BROKEN.items() for case in cases]


def checks(*arguments: Any, **options: Any) -> dict[str, Check]:
    return {check.__name__: check for check in capability_suite(*arguments, **options)}


@pytest.mark.parametrize("check", capability_suite(sound, examples=EXAMPLES), ids=lambda check: check.__name__)
async def test_a_capability_that_keeps_every_promise_passes(check: Check) -> None:
    await check()


@pytest.mark.parametrize(
    "check",
    capability_suite(
        sound.with_presets(shown=False, counting=True).with_names(prefix="my_"),
        examples=EXAMPLES,
        config=Settings(most=3),
        permissions=["other:permission"],
        env={"tier": "pro"},
    ),
    ids=lambda check: check.__name__,
)
async def test_so_does_a_reference_to_it(check: Check) -> None:
    await check()


@pytest.mark.realtime
async def test_a_config_comes_to_another_process_as_it_is() -> None:
    reference = ruled.with_config(Rules(wordList=frozenset({"todo", "later"})))
    await checks(reference, examples={})["hashes_are_the_same_in_every_process"]()


@pytest.mark.parametrize(("check", "capability", "examples", "expected"), BAD)
async def test_what_breaks_a_promise_is_found_and_named(
    check: str, capability: Capability[Any, Any], examples: Mapping[str, list[Example]], expected: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        await checks(capability, examples=examples)[check]()
    assert expected in str(caught.value)


async def test_what_tells_the_time_leaks_nothing() -> None:
    examples = {"wind_up": [{}], "tell_time": [{}]}
    await checks(ticking, examples=examples)["nothing_reaches_another_session"]()


@pytest.mark.parametrize("seed", range(4))
async def test_what_tosses_a_coin_leaks_nothing(seed: int) -> None:
    coin = random.Random(seed)

    @tool(effect="read")
    async def toss() -> str:
        """Toss a coin."""
        return coin.choice(("heads", "tails"))

    purse = Capability("purse", tools=[toss])
    await checks(purse, examples={"toss": [{}]})["nothing_reaches_another_session"]()


def test_every_check_can_fail() -> None:
    assert set(checks(sound, examples=EXAMPLES)) == set(BROKEN)


def test_without_examples_no_check_pretends_to_run_tools() -> None:
    names = set(checks(sound))
    assert set(BROKEN) - names == {
        "every_tool_and_parameter_has_an_example",
        "every_example_runs",
        "what_is_optional_can_be_left_out",
        "a_tool_that_reads_writes_nothing",
        "nothing_reaches_another_session",
    }
    assert "invalid_arguments_are_refused" in names


def test_a_check_without_anything_to_check_is_left_out() -> None:
    bare = Capability("bare", description="Adds nothing at all.")
    assert set(checks(bare, examples={})) == {
        "it_can_be_used",
        "it_says_what_it_is",
        "hashes_are_the_same_in_every_process",
    }


def test_what_is_no_capability_or_no_config_of_it_is_refused() -> None:
    thing: Any = "sound"
    with pytest.raises(DefinitionError, match="takes Capability objects"):
        capability_suite(thing)
    with pytest.raises(DefinitionError, match="has no config"):
        capability_suite(Capability("bare"), config=Settings())


@pytest.mark.realtime
def test_without_hypothesis_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from capset import Capability, CapsetError\n"
        "from capset_testing import capability_suite\n"
        "try: capability_suite(Capability('bare'))\n"
        "except CapsetError as error: print(error.message, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == f"the capability suite needs hypothesis {install_command('testing')}\n"


def test_a_check_is_called_by_what_it_promises() -> None:
    (first, *_) = capability_suite(sound)
    assert first.__name__ == "it_can_be_used"
