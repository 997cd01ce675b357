"""A suite is worth what it finds: for every check, processors that break its promise alone; others break none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from capset import Capability, DefinitionError, Tool, handles, policy, tool
from capset.extras import install_command
from capset_testing import processor_suite
from capset_testing.processor_suite import Check
from tests.helpers.testing.processor_suite.broken import BROKEN, FACTORIES, STATE
from tests.helpers.testing.processor_suite.sound import SOUND, counter, handling, idler, take, taker

BAD = [
    pytest.param(check, *case, id=f"{check}-{case[0]}", marks=[pytest.mark.realtime] if case[0] == "stubborn" else [])
    for check, cases in BROKEN.items()
    for case in cases
]
EXAMPLES = [{"to": 0}, {"to": 5}]


def checks(tool: Tool[..., Any], **options: Any) -> dict[str, Check]:
    return {check.__name__: check for check in processor_suite(tool, **options)}


def each_style_and_check() -> Iterator[Any]:
    """Each style by one check and each check by one style, and at night each by each."""
    for style, check in product(SOUND, checks(idler)):
        is_nightly = style != "handles" and check != "leaving_ends_it"
        yield pytest.param(style, check, marks=[pytest.mark.nightly] if is_nightly else [])


@pytest.mark.spec("K19")
@pytest.mark.parametrize(("style", "check"), list(each_style_and_check()))
async def test_a_processor_that_keeps_every_promise_passes(style: str, check: str) -> None:
    await checks(SOUND[style], max_messages=20)[check]()


@pytest.mark.spec("K19")
@pytest.mark.parametrize(
    "check", processor_suite(idler, examples=[{"to": 1}], patience=0.1), ids=lambda check: check.__name__
)
async def test_so_does_one_that_only_waits(check: Check) -> None:
    await check()


@pytest.mark.spec("K19")
@pytest.mark.parametrize("check", processor_suite(take, uses=[taker]), ids=lambda check: check.__name__)
async def test_so_does_one_of_a_capability_whose_data_is_no_object(check: Check) -> None:
    await check()


@pytest.mark.spec("K19")
@pytest.mark.parametrize(("broken", "name", "tool", "expected"), BAD)
async def test_what_breaks_a_promise_fails_that_check_alone_and_is_named(
    broken: str, name: str, tool: Tool[..., Any], expected: tuple[str, ...]
) -> None:
    failures: dict[str, str] = {}
    for check, run in checks(tool, examples=EXAMPLES).items():
        try:
            await run()
        except AssertionError as error:
            failures[check] = str(error)
    assert list(failures) == [broken], failures
    for words in expected:
        assert words in failures[broken]


@pytest.mark.spec("K19")
@pytest.mark.parametrize(("tool", "message"), FACTORIES)
async def test_a_factory_that_is_none_is_named(tool: Tool[..., Any], message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        await checks(tool)["each_call_gets_a_processor_of_its_own"]()
    assert message in str(caught.value)


def test_every_check_can_fail() -> None:
    assert set(checks(idler)) == set(BROKEN)


def test_what_depends_on_time_or_chance_may_say_so() -> None:
    assert set(BROKEN) - set(checks(idler, is_repeatable=False)) == {STATE}


async def test_arguments_are_made_up_where_none_are_given() -> None:
    ((_, throwing, _),) = BROKEN["it_fails_in_words"]
    with pytest.raises(AssertionError, match=r'processor .Count\.Up. with \{"to": [456]\}'):
        await checks(throwing)["it_fails_in_words"]()


async def test_a_call_that_is_refused_says_what_to_give() -> None:
    @policy
    def never(_request: object) -> bool:
        return False

    with pytest.raises(AssertionError, match=r"refused before it starts: permission_denied .*; give permissions="):
        await checks(counter(handles(handling), policies=[never]))["it_fails_in_words"]()


def test_what_is_no_processor_and_what_does_not_fit_it_is_refused() -> None:
    @tool
    def plain() -> None:
        """Do nothing."""

    with pytest.raises(DefinitionError, match=r"takes a tool that Tool\.from_processor made; got Tool\('plain'"):
        processor_suite(plain)
    with pytest.raises(DefinitionError, match=r"example \{'to': 9\} does not fit the tool 'Count_Up'"):
        processor_suite(idler, examples=[{"to": 9}])
    with pytest.raises(DefinitionError, match="max_messages must be a positive number; got 0"):
        processor_suite(idler, max_messages=0)
    with pytest.raises(DefinitionError, match=r"Count\.Up"):
        processor_suite(idler, uses=[_rival()])


def _rival() -> Any:
    return Capability("rival", tools=[counter(handles(handling), name="other_name")])


@pytest.mark.realtime
def test_without_hypothesis_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from capset import CapsetError\n"
        "from capset_testing import processor_suite\n"
        "try: processor_suite(None)\n"
        "except CapsetError as error: print(error.message, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == f"the processor suite needs hypothesis {install_command('testing')}\n"
