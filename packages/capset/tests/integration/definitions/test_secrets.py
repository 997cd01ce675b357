"""The secrets in URLs: their credentials, and the values of secret-looking names in queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.definitions.secrets import mask_urls

M = "[redacted]"


@pytest.mark.spec("T16")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://ada:hunter2@example.org/a?b=c", f"https://{M}@example.org/a?b=c"),
        ("https://sk_live_1@example.org", f"https://{M}@example.org"),
        ("HTTP://ada:@example.org", f"HTTP://{M}@example.org"),
        ("//ada:hunter2@example.org/a", f"//{M}@example.org/a"),
        ("https://ada:hunt%40er@2@example.org:8443/@c", f"https://{M}@example.org:8443/@c"),
        ("postgresql://ada:hunter2@db/shop", f"postgresql://{M}@db/shop"),
        ("https://example.org/?api_key=s3cret&page=2", f"https://example.org/?api_key={M}&page=2"),
        ("https://example.org/?page=2&access_token=s3cret#top", f"https://example.org/?page=2&access_token={M}#top"),
        ("https://example.org/?API%5FKEY=s3cret", f"https://example.org/?API%5FKEY={M}"),
        ("https://example.org/?token[]=a&token[]=b", f"https://example.org/?token[]={M}&token[]={M}"),
        ("https://example.org/?key=AIzaS3cret&q=tea", f"https://example.org/?key={M}&q=tea"),
        ("https://a/o?X-Amz-Signature=5e&X-Amz-Date=1", f"https://a/o?X-Amz-Signature={M}&X-Amz-Date=1"),
        ("https://a.example/o?sv=1&sig=5e%2F", f"https://a.example/o?sv=1&sig={M}"),
        ("https://a.example/cb#access_token=5e&state=1", f"https://a.example/cb#access_token={M}&state=1"),
        ("https://a/?next=https://b:c@d/?token=5e", f"https://a/?next=https://{M}@d/?token={M}"),
        ("/v1/items?secret=5e", f"/v1/items?secret={M}"),
        ('curl "https://ada:pw@a.example/?token=5e" | sh', f'curl "https://{M}@a.example/?token={M}" | sh'),
        ("see https://a:b@a.example and\nhttps://c:d@c", f"see https://{M}@a.example and\nhttps://{M}@c"),
        ("curl https://ok/?token=x;{rm,-rf,/srv/data}", f"curl https://ok/?token={M};{{rm,-rf,/srv/data}}"),
        ("curl https://a:b$(rm${IFS}x)@ok/", f"curl https://{M}$(rm${{IFS}}x)@ok/"),
        ("curl https://$(rm${IFS}x)@ok/", "curl https://$(rm${IFS}x)@ok/"),
    ],
)
def test_secrets_in_urls_are_masked(text: str, masked: str) -> None:
    assert mask_urls(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/a/b?c=d&page_token_limit=5&max_tokens=7&monkey=1#top",
        *("https://example.org/@ada?to=ada@example.org", "https://example.org/?token", "postgresql://reader@db/shop"),
        *("ssh://git@example.org/repo.git", "mailto:ada@example.org", "a // ask ada@example.org", "is it a?token=b"),
        *("", "x" * 99),
    ],
)
def test_everything_else_stays_as_it_is(text: str) -> None:
    assert mask_urls(text) == text


@pytest.mark.spec("G51", "T49")
@given(
    secret=st.text("abcXYZ019-._~%+=:!", min_size=1),
    end=st.sampled_from(";'\"`\\$(){}|<>*,"),
    code=st.text("rmf-{}()$;|&<>'\" ", max_size=20).filter(lambda text: "=" not in text),
)
def test_what_a_shell_sql_or_code_reads_is_never_within_a_secret(secret: str, end: str, code: str) -> None:
    assert mask_urls(f"curl https://ok/?token={secret}{end}{code}") == f"curl https://ok/?token={M}{end}{code}"


@given(st.text("h:/@?&=#tokenkey%5F \n\"<';$(|", max_size=60))
def test_what_is_masked_stays_masked(text: str) -> None:
    assert mask_urls(mask_urls(text)) == mask_urls(text)


@pytest.mark.parametrize(
    "unit", ["//", "//a:", "//a:b@", "?key=", "&", "/?a=", "://a", "%5F", "/?token=//a:b@", "a", "//a;", "@;"]
)
def test_long_texts_take_no_longer_than_their_length(unit: str) -> None:
    """In a time that grows with the square of its length, this text would take longer than a test may."""
    text = "/" + unit * (1_000_000 // len(unit))
    assert mask_urls(text)
