"""One attack of each module of ``make lab-siege``, which runs all and measures times: answers, memory and recovery."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from lab.siege.attack import Attack
from lab.siege.attacks import ATTACKS_BY_MODULE
from lab.siege.battle import recovery
from lab.siege.bystander import watch
from lab.siege.site import Site, besieged

pytestmark = [pytest.mark.nightly, pytest.mark.realtime, pytest.mark.anyio]
SECONDS = 1.0
SAMPLE = [attacks[0] for attacks in ATTACKS_BY_MODULE.values() if "sqlite" in attacks[0].engines]


@pytest.fixture(scope="module")
def besieged_site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """Give two servers on one SQLite database."""
    folder: Path = tmp_path_factory.mktemp("siege")
    with besieged(folder, f"sqlite:///{folder / 'siege.db'}") as site:
        yield site


@pytest.mark.spec("P35", "P46", "T31", "T32")
@pytest.mark.parametrize("attack", SAMPLE, ids=lambda attack: attack.name)
async def test_a_server_survives(besieged_site: Site, attack: Attack) -> None:
    ended = asyncio.Event()
    watching = asyncio.create_task(watch(besieged_site, attack, ended))
    try:
        answers = await attack.work(besieged_site, time.monotonic() + SECONDS)
    finally:
        ended.set()
        observed = await watching
    assert answers, "it was answered, or knows that it was not"
    assert set(answers) <= attack.answers
    assert not observed.failed, "a bystander is served meanwhile, however slowly"
    assert observed.rss <= attack.bounds.rss
    assert await recovery(besieged_site) < 10
