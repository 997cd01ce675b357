"""What a record says, and what it must not say (spec 4, G20)."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from capset import Json, Message, Meta, tool
from capset.fingerprint.canonical import canonical
from capset.fingerprint.hashes import tool_hash
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES, MAX_RECORDED_TEXT, redacted
from tests.helpers.kernel.support import ask, desk, read


class Login(BaseModel):
    name: str
    api_key: str = ""
    headers: dict[str, str] = {}


@tool
async def keep(text: str = "", password: str | None = None, login: Login | None = None, more: object = None) -> int:
    """Keep."""
    return 1


@tool(effect="read")
async def scalars(text: str, count: int = 5, share: float = 0.5) -> int:
    """Take scalars."""
    return count


@pytest.mark.spec("G20", "F32")
async def test_a_record_says_who_what_which_version_and_how_it_ended(store: str) -> None:
    async with desk(keep, scalars, store=store) as opened:
        result = await opened.session.try_call(keep, "x")
        record, session = await opened.record(), opened.session
        assert (record.id, record.session, record.agent) == (result.record, session.id, "tester")
        assert (record.principal, record.principal_kind, record.org) == ("user-1", "user", None)
        assert (record.on_behalf_of, record.causation, record.correlation) == (None, None, record.id)
        assert (record.capability, record.tool, record.effect) == ("kit", "keep", "write")
        assert (record.decision, record.policies, record.reason) == ("allow", "[]", None)
        assert (record.phase, record.outcome, record.code) == ("outcome", "succeeded", None)
        assert (record.tool_hash, record.profile, len(record.writer)) == (tool_hash(keep), "jcs-1", 36)
        for name in ("static_hash", "runtime_hash", "prompt_hash"):
            assert getattr(record, name) == getattr(session.snapshot, name)
        assert record.duration_us is not None
        assert 0 <= record.duration_us < 5_000_000
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("G20", "T16")
async def test_secrets_in_urls_are_masked_wherever_they_stand_in_arguments(store: str) -> None:
    url, masked = (
        "https://ada:hunter2@a.example/?token=hunter3&page=2",
        "https://[redacted]@a.example/?token=[redacted]&page=2",
    )
    async with desk(keep, store=store) as opened:
        await opened.session.call(keep, f"{'x ' * 990}{url} {'y' * 2_000}", more={"urls": [url, 1], url: None})
        record = await opened.record()
        assert "hunter" not in record.arguments
        arguments = json.loads(record.arguments)
        assert arguments["more"] == {"urls": [masked, 1], masked: None}
        assert f" {masked[:20]}… [" in arguments["text"], "masked first, and cut then"


@pytest.mark.spec("G20")
async def test_the_digest_is_keyed_and_covers_all_arguments_with_their_defaults(store: str) -> None:
    async with desk(keep, scalars, store=store) as opened:
        await opened.session.call(scalars, "Grüße", share=1.5)
        await ask(opened.session, "scalars", {"share": 1.5, "text": "Grüße"})
        await opened.session.call(keep, "x" * 5_000, "hunter2", Login(name="n", api_key="k"))
        key = await opened.kernel.audit.digest_key()
        assert len(key) == 32
        wholes: list[Any] = [{"text": "Grüße", "count": 5, "share": 1.5}] * 2
        login = {"name": "n", "api_key": "k", "headers": {}}
        wholes.append({"text": "x" * 5_000, "password": "hunter2", "login": login, "more": None})
        digests = [record.arguments_digest for record in await opened.records()]
        assert digests == [hmac.digest(key, canonical(arguments), "sha256").hex() for arguments in wholes]


@pytest.mark.spec("G20")
async def test_digests_differ_between_stores() -> None:
    digests: set[str] = set()
    for _ in range(2):
        async with desk(scalars) as opened:
            await opened.session.call(scalars, "the same")
            digests.add((await opened.record()).arguments_digest)
    assert len(digests) == 2


@pytest.mark.spec("G20")
async def test_secrets_are_redacted_at_every_depth_and_long_texts_are_cut() -> None:
    async with desk(keep) as opened:
        login = Login(name="n", api_key="hunter2", headers={"Authorization": "hunter2", "Accept": "text"})
        masked = {"Authorization": "[redacted]", "Accept": "text"}
        more = [{"deep": {"clientSecret": ["hunter2"], "note": "y" * 3_000}}]
        await opened.session.call(keep, "x" * 3_000, "hunter2", login, more)
        record = await opened.record()
        assert "hunter2" not in repr(record)
        assert json.loads(record.arguments) == {
            "text": "x" * MAX_RECORDED_TEXT + "… [1000 more characters]",
            "password": "[redacted]",
            "login": login.model_dump() | {"api_key": "[redacted]", "headers": masked},
            "more": [{"deep": {"clientSecret": "[redacted]", "note": "y" * 2_000 + "… [1000 more characters]"}}],
        }


@pytest.mark.spec("G20")
@pytest.mark.parametrize("text", ['{"password": 5, "api_key": "hunter2"}', '{"nested": {"X-API-Key": "hunter2"}}'])
async def test_secrets_of_refused_calls_are_redacted_too(text: str) -> None:
    async with desk(keep) as opened:
        for name in ("keep", "nothing"):
            await read(opened.session.invoke(Message("command", name, Json(text.encode()))))
            await read(opened.session.invoke(Message("command", name, json.loads(text))))
        records = await opened.records()
        assert {record.outcome for record in records} == {"invalid", "not_found"}
        assert "hunter2" not in repr(records)


SECRET_NAMES = (
    *("password", "Password", "PASSWORD", "db_password", "DB_PASSWORD", "dbPassword", "password2", "old-password"),
    *("token", "accessToken", "ACCESS_TOKEN", "refresh-token", "secret", "client_secret", "AWS_SECRET_ACCESS_KEY"),
    *("api_key", "apiKey", "APIKey", "apikey", "API_KEY", "X-API-Key", "x-api-key", "OPENAI_API_KEY", "openai.api.key"),
    *("private_key", "privateKey", "signingKey", "ssh private key", "session_key", "session_token", "credentials"),
    *("passwords", "api_keys", "apiKeys", "apikeys", "access_tokens", "refreshTokens", "accesstoken", "max_password"),
    *("cookie", "Set-Cookie", "cookies", "auth", "proxy_auth", "basicAuth", "Authorization", "AUTHORIZATION"),
    *("pwd", "DB_PWD", "bearer", "bearerToken"),
)
OTHER_NAMES = (
    *("text", "key", "keys", "KEYS", "keyboard", "monkey", "primary_key", "access", "session", "secretary", "passage"),
    *("tokens", "max_tokens", "maxTokens", "prompt_tokens", "token_count", "tokenCount", "page_token_limit"),
    *("api_key_count", "tokenizer", "auth_type", "author", "authors", ""),
)


@pytest.mark.spec("G20")
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets_in_every_style_are_redacted(name: str) -> None:
    assert redacted({name: "x"}) == {name: "[redacted]"}
    assert redacted([{"a": {name: {"deeper": 1}}}]) == [{"a": {name: "[redacted]"}}]
    assert redacted({name: None}) == {name: None}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_that_only_look_alike_are_kept(name: str) -> None:
    assert redacted({name: "x"}) == {name: "x"}


@pytest.mark.spec("G20")
async def test_what_is_a_secret_by_its_type_is_not_on_record_even_if_the_call_is_refused() -> None:
    @tool(effect="read")
    async def unlock(pin: SecretStr, door: int, other: SecretStr | None = None) -> int:
        """Unlock."""
        return len(pin)

    async with desk(unlock) as opened:
        await ask(opened.session, "unlock", {"pin": "hunter2", "other": "hunter3", "door": "x"})
        arguments = json.loads((await opened.record()).arguments)
        assert arguments == {"pin": "[redacted]", "other": "[redacted]", "door": "x"}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
)


@given(value=PLAIN, name=st.sampled_from(["token", "apiKey", "password"]))
def test_redaction_reaches_everywhere_and_changes_nothing_else(value: object, name: str) -> None:
    assert redacted({"a": [value, {name: "s3cr3t-value"}]})["a"][1] == {name: "[redacted]"}
    assert redacted([[value]]) == [[redacted(value)]]
    assert redacted(redacted(value)) == redacted(value)


@pytest.mark.spec("G20")
async def test_a_record_is_bounded_and_its_digest_still_covers_everything() -> None:
    async with desk(keep) as opened:
        for last in (1, 2):
            await opened.session.call(keep, more=[*range(20_000), last])
        first, second = await opened.records()
        assert len(first.arguments) < MAX_RECORDED_BYTES
        assert list(json.loads(first.arguments)) == ["omitted"]
        assert first.arguments_digest != second.arguments_digest


@pytest.mark.spec("G20")
async def test_nothing_that_a_handler_does_to_its_arguments_changes_the_record(store: str) -> None:
    @tool
    async def spoil(names: list[str], by: dict[str, list[int]], login: Login, anything: object) -> int:
        """Change everything in reach."""
        names.clear()
        by["evil"] = by.pop("a")
        login.name = "evil"
        login.headers["evil"] = "1"
        anything.append("evil")  # pyright: ignore[reportAttributeAccessIssue]
        return 1

    async with desk(spoil, store=store) as opened:
        await opened.session.call(spoil, ["n"], {"a": [1]}, Login(name="n"), [1])
        record = await opened.record()
        login = {"name": "n", "api_key": "", "headers": {}}
        expected: dict[str, Any] = {"names": ["n"], "by": {"a": [1]}, "login": login, "anything": [1]}
        assert json.loads(record.arguments) == expected | {"login": login | {"api_key": "[redacted]"}}
        key = await opened.kernel.audit.digest_key()
        assert record.arguments_digest == hmac.digest(key, canonical(expected), "sha256").hex()


async def test_whatever_text_stands_around_a_call_is_stored(store: str) -> None:
    odd = "\0 \ud800 " + "x" * 5_000
    async with desk(scalars, store=store) as opened:
        sent = Message("query", "scalars", {"text": "x"}, Meta(odd, "", odd))
        (reply,) = await read(opened.session.invoke(sent))
        assert reply.kind == "reply"
        record = await opened.record()
        assert record.correlation.startswith("\ufffd ? x")
        assert len(record.correlation) == MAX_RECORDED_TEXT
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("G20")
async def test_calls_of_one_tool_share_the_columns_that_they_have_in_common_and_refused_ones_keep_none() -> None:
    async with desk(scalars) as opened:
        session = opened.session
        for number in range(3):
            await session.try_call(scalars, "x", count=number)
            await session.try_message(session.message(f"no_such_{number}", {}))
            await session.try_message(Message("command", "scalars", {"text": "x"}))  # a query is expected
        await opened.kernel.audit.flush()
        records = await opened.kernel.audit.read()
        assert len(records) == 9
        assert [columns["tool"] for columns in session._context.record_columns.values()] == ["scalars"]
