"""What third parties share with the built-ins that ask the Web: a config's hosts, and words for a type."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from capset.ext import AllowedHosts, describe_media_type


@pytest.mark.spec("G29")
def test_allowed_hosts_are_hosts() -> None:
    hosts = TypeAdapter[tuple[str, ...]](AllowedHosts)
    assert hosts.validate_python(["localhost", "10.0.0.1:8080"]) == ("localhost", "10.0.0.1:8080")
    for wrong in (["127.1"], ["a/b"], [1], ["a"] * 1_001):
        with pytest.raises(ValidationError):
            hosts.validate_python(wrong)


def test_words_for_a_type() -> None:
    assert (describe_media_type("image/png"), describe_media_type("")) == ("of the type image/png", "of no known type")
