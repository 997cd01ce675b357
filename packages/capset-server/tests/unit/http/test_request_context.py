"""The context of a request, and the identity of its caller."""

from __future__ import annotations

import pytest

from capset_server.http.request_context import KEY, RequestContext, caller_of


def test_a_path_that_is_open_to_everyone_has_no_caller_to_act_for() -> None:
    scope = {"path": "/v1/healthz", KEY: RequestContext("a", {})}
    with pytest.raises(RuntimeError, match="open to everyone"):
        caller_of(scope)
