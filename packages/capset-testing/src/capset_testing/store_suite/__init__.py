"""The test suite for stores: each promise of the protocols in ``capset.stores.base`` is one check.

A check takes a function that makes a new store over new, empty storage, not yet opened; it raises ``AssertionError`` if
the store breaks the promise. With pytest::

    @pytest.mark.parametrize("check", store_suite, ids=lambda check: check.__name__)
    async def test_my_store(check, tmp_path):
        await check(lambda: MyStore(tmp_path / uuid4().hex))
"""

from __future__ import annotations

from typing import Final

from capset_testing.store_suite import (
    act_checks,
    admission_checks,
    agent_checks,
    approval_checks,
    checkpoint_checks,
    delivery_checks,
    document_checks,
    envelope_checks,
    event_checks,
    file_checks,
    lifecycle_checks,
    lineage_checks,
    pin_checks,
    quota_checks,
    record_checks,
    request_checks,
    run_checks,
    schedule_checks,
    service_checks,
    session_checks,
    state_checks,
    usage_checks,
)
from capset_testing.store_suite.support import Check, Make

store_suite: Final[tuple[Check, ...]] = (
    *lifecycle_checks.CHECKS,
    *record_checks.CHECKS,
    *checkpoint_checks.CHECKS,
    *act_checks.CHECKS,
    *session_checks.CHECKS,
    *event_checks.CHECKS,
    *file_checks.CHECKS,
    *quota_checks.CHECKS,
    *state_checks.CHECKS,
    *document_checks.CHECKS,
    *agent_checks.CHECKS,
    *service_checks.CHECKS,
    *admission_checks.CHECKS,
    *request_checks.CHECKS,
    *approval_checks.CHECKS,
    *usage_checks.CHECKS,
    *delivery_checks.CHECKS,
    *run_checks.CHECKS,
    *schedule_checks.CHECKS,
    *pin_checks.CHECKS,
    *lineage_checks.CHECKS,
    *envelope_checks.CHECKS,
)
"""Every check."""

__all__ = ["Check", "Make", "store_suite"]
