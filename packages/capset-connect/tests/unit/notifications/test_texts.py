"""Requests in words: files with size and hash, each on one line, and masks that say that this is not all (spec 9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capset.definitions.governance.approvals import ApprovalRow
from capset.kernel.governance.file_arguments import FileArgument, files_json
from capset.stores.base import DeliveryRow
from capset_connect.notifications.senders import Notice
from capset_connect.notifications.texts import words_of
from capset_testing.store_suite.support import NOW, approval_row


def notice(request: ApprovalRow) -> Notice:
    delivery = DeliveryRow(
        id="d-1",
        channel="chat",
        key="approval.requested a-1",
        event="approval.requested",
        approval=request.id,
        org=request.org,
        created_at=NOW,
        due_at=NOW,
    )
    return Notice(delivery, "approval.requested", request, None)


@pytest.mark.spec("N31", "G52")
def test_files_stand_below_the_arguments_each_on_one_line() -> None:
    files = [FileArgument("path", '/a"\n/b is harmless', 7, "ab" * 32), FileArgument("key", "/id", 9, "cd" * 32, True)]
    words = words_of(notice(replace(approval_row("a-1"), files=files_json(files))))
    assert words.arguments.splitlines()[-2:] == [
        f'"path" is "/a\\"\\n/b is harmless", 7 bytes, SHA-256 {"ab" * 32}',
        f'"key" is a file that is secret, 9 bytes, SHA-256 {"cd" * 32}',
    ]
    assert words.is_whole


@pytest.mark.spec("N31", "G51")
def test_a_request_with_a_mask_is_not_shown_whole() -> None:
    row = approval_row("a-1")
    assert words_of(notice(row)).is_whole
    assert not words_of(notice(replace(row, unmasked='{"token":"x"}'))).is_whole
