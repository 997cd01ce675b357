from __future__ import annotations

import pytest

from capset import Principal
from capset.definitions.environments import Environment, MissingValue


def test_a_value_that_is_missing_is_named_with_the_option_that_gives_it() -> None:
    environment, attributes = Environment({"tier": "pro"}), Principal("ada", attributes={"team": "blue"}).attributes
    assert (environment["tier"], environment.get("region"), attributes["team"]) == ("pro", None, "blue")
    assert attributes.get("region") is None
    for values, option in ((environment, "--env"), (attributes, "--attribute")):
        with pytest.raises(KeyError, match="region") as failure:
            values["region"]
        assert isinstance(failure.value, MissingValue)
        assert (failure.value.option, failure.value.description) == (option, "KeyError 'region'")
