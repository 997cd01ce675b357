"""Files that operations take: of the session or as base64, as a body or as parts of a form (spec 7, M8 and M23)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import MultipartParser, parse_options_header

from capset import Principal
from capset.errors import ApprovalRequired, FileError, InvalidArguments, LimitExceeded, PermissionDenied, ToolError
from capset.ext import Answer
from capset.kernel.governance.file_arguments import files_of
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery
from capset_connect.openapi.uploads import multipart
from tests.helpers.connect.openapi.support import There, serving
from tests.helpers.connect.openapi.upload_support import BYTES, FILE, READ, encoded, parts_app, sending
from tests.helpers.kernel.support import records_of

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), min_size=1)
"""Names of files, which have no folders."""


@pytest.fixture
async def there() -> AsyncGenerator[There]:
    async with serving(parts_app()) as running:
        yield running


@pytest.mark.spec("M8", "M23")
async def test_files_stand_beside_texts_and_json(there: There) -> None:
    async with sending(there) as site:
        await site.session.files.write("/pictures/a b.png", BYTES)
        body = {
            "picture": {"path": "/pictures/a b.png"},
            "pages": [encoded(b"one", "1.txt"), {"path": "/pictures/a b.png"}],
            "report": encoded(b"%PDF", "report.bin"),
            "title": "An ä\r\nb",
            "count": 2,
            "tags": ["x", "y"],
            "meta": {"k": [1]},
            "list": [1, 2],
            "other": "more",
        }
        parts = await site.call("files_send", body=body)
        content = BYTES.decode("latin-1")
        headers = ["content-disposition", "content-type"]
        png = {"file": "a b.png", "type": "image/png", "headers": headers, "content": content}
        assert parts == [
            {"name": "picture", **png},
            {"name": "pages", "file": "1.txt", "type": "text/plain", "headers": headers, "content": "one"},
            {"name": "pages", **png},
            {
                "name": "report",
                "file": "report.bin",
                "type": "application/pdf",  # as the document says, whatever its name stands for
                "headers": headers,
                "content": "%PDF",
            },
            {"name": "title", "text": "An ä\r\nb"},
            {"name": "count", "text": "2"},
            {"name": "tags", "text": "x"},
            {"name": "tags", "text": "y"},
            {"name": "meta", "text": '{"k":[1]}'},
            {"name": "list", "text": "[1,2]"},
            {"name": "other", "text": "more"},
        ]
        assert there.last.body.count(b"Content-Type: application/json") == 2
        await site.session.files.write("/empty", b"")
        (part,) = await site.call("files_send", body={"picture": {"path": "/empty"}})
        assert (part["file"], part["type"], part["content"]) == ("empty", "application/octet-stream", "")
        received = await site.call("files_put", body={"path": "/pictures/a b.png"})
        assert received == {"length": len(BYTES), "type": "image/png"}
        assert there.last.body == BYTES


@pytest.mark.spec("M8", "M23")
async def test_a_model_sees_how_a_file_is_given(there: There) -> None:
    async with sending(there) as site:
        schema = site.tool("files_send").arguments.json_schema["properties"]["body"]
        assert schema["required"] == ["picture"]
        assert "etag" not in schema["properties"]
        description = schema["properties"]["picture"]["description"]
        assert description == "A picture.\nA file: the path of one of the session's files, or its content as base64."
        for wrong in (
            {},
            {"picture": "/a.png"},
            {"picture": {}},
            {"picture": {"path": "/a", "base64": ""}},
            {"picture": {"path": "/a", "name": "b"}},
            {"picture": {"base64": "", "name": "x" * 201}},
            {"picture": [encoded(b"")]},
            {"picture": encoded(b""), "pages": encoded(b"")},
        ):
            with pytest.raises(InvalidArguments):
                await site.call("files_send", body=wrong)
        assert there.got == []


@pytest.mark.spec("M23", "T43")
@pytest.mark.parametrize(
    ("file_name", "arrives"),
    [
        ('a".png', "a%22.png"),
        ('a.png"\r\nX-Evil: 1\r\n\r\nx', "a.png%22%0D%0AX-Evil: 1%0D%0A%0D%0Ax"),
        ("résumé 文.txt", "résumé 文.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\evil.exe", "evil.exe"),
        ("..", "file"),
        ("", "file"),
        ("a\0b", "a%00b"),
        ("data:text;x\r\nX-Evil: 1,", "data:text;x%0D%0AX-Evil: 1,"),
    ],
)
async def test_a_name_ends_neither_its_line_nor_its_part(there: There, file_name: str, arrives: str) -> None:
    async with sending(there) as site:
        (part,) = await site.call("files_send", body={"picture": encoded(b"x", file_name)})
        assert (part["name"], part["file"], part["content"]) == ("picture", arrives, "x")
        assert part["headers"] == ["content-disposition", "content-type"]


@pytest.mark.spec("M23")
async def test_a_field_of_a_form_is_one_part_whatever_its_name_is(there: There) -> None:
    name = 'a"; filename="b.txt"\r\nContent-Type: text/html\r\n\r\n--x'
    async with sending(there) as site:
        parts = await site.call("files_send", body={"picture": encoded(b"x"), name: "text"})
        assert [form_part.get("text") for form_part in parts] == [None, "text"]
        assert parts[1]["name"] == name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        await site.session.files.write('/a"\r\nb.txt', b"x")
        (part,) = await site.call("files_send", body={"picture": {"path": '/a"\r\nb.txt'}})
        assert part["file"] == "a%22%0D%0Ab.txt"


@pytest.mark.spec("M23")
@pytest.mark.property
@given(parts=st.lists(st.tuples(st.text(), st.none() | NAMES, st.binary()), min_size=1, max_size=4))
def test_what_is_put_in_comes_out(parts: list[tuple[str, str | None, bytes]]) -> None:
    data, media = multipart("body", [(name, (file, content, None)) for name, file, content in parts])
    contents: list[bytes] = []
    headers: list[bytes] = []

    def add(to: list[bytes], piece: bytes, start: int, end: int) -> None:
        to[-1] += piece[start:end]

    parser = MultipartParser(
        parse_options_header(media)[1][b"boundary"],
        {
            "on_part_begin": lambda: contents.append(b""),
            "on_header_begin": lambda: headers.append(b""),
            "on_header_field": lambda *piece: add(headers, *piece),
            "on_part_data": lambda *piece: add(contents, *piece),
        },
    )
    parser.write(data)
    parser.finalize()
    assert contents == [content for _, _, content in parts]
    expected_headers = [
        ["Content-Disposition", *(["Content-Type"] if file is not None else [])] for _, file, _ in parts
    ]
    assert headers == [header.encode() for names in expected_headers for header in names]


@pytest.mark.spec("M23")
async def test_a_boundary_cannot_be_foreseen(there: There) -> None:
    async with sending(there) as site:
        content_types: set[str] = set()
        for _ in range(2):
            earlier_types = [request.headers["content-type"] for request in there.got]
            forged = earlier_types[-1].partition("boundary=")[2] if earlier_types else "x"
            content = f"\r\n--{forged}\r\nContent-Disposition: form-data; name=admin\r\n\r\n1\r\n--{forged}--".encode()
            (part,) = await site.call("files_send", body={"picture": encoded(content)})
            assert part["content"].encode() == content
            content_types.add(there.last.headers["content-type"])
        assert len(content_types) == 2
        assert all(
            re.fullmatch(r"multipart/form-data; boundary=[0-9a-f]{32}", content_type) for content_type in content_types
        )


@pytest.mark.spec("M23", "T43")
async def test_a_path_needs_the_permission_to_read_files(there: There) -> None:
    async with sending(there, permissions=()) as site:
        await site.session.files.write("/a.png", BYTES)
        for name, body in (
            ("files_send", {"picture": {"path": "/a.png"}}),
            ("files_send", {"picture": encoded(b"x"), "pages": [{"path": "/a.png"}]}),
            ("files_put", {"path": "/a.png"}),
            ("files_put", {"path": "/missing.png"}),
        ):
            with pytest.raises(PermissionDenied, match=f"needs the permission {READ}"):
                await site.call(name, body=body)
        assert there.got == []
        for record in await records_of(site.kernel.audit):
            assert (record.decision, record.policies) == ("deny", f'["api:{record.tool}:files"]')
        assert (await site.call("files_put", body=encoded(b"x")))["length"] == 1, "what a caller has, it may send"


@pytest.mark.spec("M6", "M23")
async def test_rules_allow_one_form_or_one_folder(there: There) -> None:
    path = {"type": "object", "properties": {"path": {"type": "string", "pattern": "^/out/"}}, "required": ["path"]}
    rules = {"send": {"arguments": {"body": {"type": "object", "properties": {"picture": path}}}}}
    async with sending(there, rules=rules) as site:
        await site.session.files.write("/out/a", BYTES)
        await site.session.files.write("/in/a", BYTES)
        assert await site.call("files_send", body={"picture": {"path": "/out/a"}})
        for picture in ({"path": "/in/a"}, {"path": "//out/a"}, encoded(b"x")):
            with pytest.raises(PermissionDenied, match="not allowed here: body"):
                await site.call("files_send", body={"picture": picture})
        with pytest.raises(FileError):
            await site.call("files_send", body={"picture": {"path": "/out/../in/a"}})
        assert len(there.got) == 1


@pytest.mark.spec("M23")
async def test_what_cannot_be_read_is_refused_and_nothing_is_sent(there: There) -> None:
    async with sending(there) as site:
        await site.session.files.write("/folder/a.png", BYTES)
        for path in ("/missing.png", "/folder", "/folder/../folder/a.png", "folder/a.png", "/a\0"):
            with pytest.raises(FileError):
                await site.call("files_put", body={"path": path})
        for text in ("%%%", "YQ", "YQ==\n", "Y Q==", "data:image/png;base64,YQ==", "_-8=", "ä"):
            with pytest.raises(ToolError, match="base64 is invalid") as raised:
                await site.call("files_send", body={"picture": {"base64": text}})
            assert (raised.value.code, raised.value.status) == ("argument_refused", 422)
        assert there.got == []


@pytest.mark.spec("M23")
async def test_files_of_one_request_are_bounded_together(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_connect.openapi.uploads.MAX_UPLOAD_BYTES", 100)
    async with sending(there) as site:
        await site.session.files.write("/100", b"x" * 100)
        await site.session.files.write("/101", b"x" * 101)
        assert (await site.call("files_put", body={"path": "/100"}))["length"] == 100
        assert (await site.call("files_put", body=encoded(b"x" * 100)))["length"] == 100
        sent = len(there.got)
        for name, body in (
            ("files_put", {"path": "/101"}),
            ("files_put", encoded(b"x" * 101)),
            ("files_send", {"picture": {"path": "/100"}, "pages": [encoded(b"x")]}),
            ("files_send", {"picture": encoded(b"x"), "pages": [{"path": "/100"}]}),
        ):
            with pytest.raises(ToolError, match="at most 100 bytes together"):
                await site.call(name, body=body)
        with pytest.raises(ToolError, match="at most 100 files"):
            await site.call("files_send", body={"picture": encoded(b""), "pages": [encoded(b"")] * 100})
        assert len(there.got) == sent


@pytest.mark.spec("M8", "M23")
async def test_a_form_that_is_none_is_refused(there: There) -> None:
    form: dict[str, Any] = {"schema": {"properties": {"picture": FILE, "title": {"type": "string"}}}}
    async with sending(there, form) as site:
        for body in ("text", 1, [], ["picture"]):
            with pytest.raises(ToolError, match="an object was expected"):
                await site.call("files_send", body=body)
        for body in ({}, {"title": []}):
            with pytest.raises((ToolError, InvalidArguments)):
                await site.call("files_send", body=body)
        with pytest.raises(ToolError, match="at least one field"):
            await site.call("files_send", body={})
        assert there.got == []


@pytest.mark.spec("M8", "M23")
async def test_records_have_arguments_as_of_any_call_and_no_content_of_files(there: There) -> None:
    async with sending(there) as site:
        await site.session.files.write("/a.txt", b"the content of a file")
        await site.call("files_put", body={"path": "/a.txt"})
        await site.call("files_put", body=encoded(b"x" * 500_000))
        await site.call("files_send", body={"picture": encoded(b"x" * 9_000), "pages": [encoded(b"y" * 9_000)] * 9})
        first, second, third = await records_of(site.kernel.audit)
        assert json.loads(first.arguments or "") == {"body": {"path": "/a.txt"}}
        assert "content of a file" not in str(first)
        assert len(second.arguments or "") < 2_500, "long texts are cut"
        assert (third.arguments or "").startswith('{"omitted":'), "and so are many"


@pytest.mark.spec("M8", "M23")
async def test_a_file_that_is_write_only_is_masked_in_records(there: There) -> None:
    key = {"schema": {"type": "object", "properties": {"blob": {**FILE, "writeOnly": True}}}}
    async with sending(there, key) as site:
        await site.call("files_send", body={"blob": encoded(b"private", "id_rsa")})
        (record,) = await records_of(site.kernel.audit)
        assert "id_rsa" not in str(record)
        assert encoded(b"private")["base64"] not in str(record)


@pytest.mark.spec("M23")
@pytest.mark.parametrize("media", ["image/png\r\nX-Evil: 1", "image/*", "image/png, image/jpeg", "no type", ""])
async def test_a_media_type_that_is_none_is_not_sent(there: There, media: str) -> None:
    form: dict[str, Any] = {
        "schema": {"type": "object", "properties": {"picture": FILE}},
        "encoding": {"picture": {"contentType": media}},
    }
    async with sending(there, form) as site:
        (part,) = await site.call("files_send", body={"picture": encoded(b"x", "a.gif")})
        assert (part["type"], part["headers"]) == ("image/gif", ["content-disposition", "content-type"])


@pytest.mark.spec("M22")
async def test_operations_share_the_limits_of_their_api(there: There) -> None:
    async with sending(there, limits="2/1h") as site:
        await site.call("files_put", body=encoded(b"x"))
        await site.call("files_send", body={"picture": encoded(b"x")})
        for name, body in (("files_put", encoded(b"x")), ("files_send", {"picture": encoded(b"x")})):
            with pytest.raises(LimitExceeded, match="the capability 'api:files' is limited to 2/1h"):
                await site.call(name, body=body)
        assert len(there.got) == 2


@pytest.mark.spec("M23", "G52", "T50")
async def test_an_approval_is_for_the_content_of_a_file_that_is_sent(there: There) -> None:
    rules = {"put": {"approval": "ask"}}
    async with sending(there, rules=rules) as site:
        await site.session.files.write("/a.txt", b"harmless")
        ready = site.session.options(approvals="defer")

        async def sent() -> Result[Any]:
            return await ready.try_call(site.tool("files_put"), body={"path": "/a.txt"})

        assert isinstance((await sent()).error, ApprovalRequired)
        (row,) = (await site.kernel.approvals.list(ApprovalQuery(None))).items
        (file,) = files_of(row)
        assert (file.argument, file.path, file.sha256) == ("body.path", "/a.txt", sha256(b"harmless").hexdigest())
        await site.kernel.approvals.decide(row.id, Answer(approved=True), by=Principal("boss"))
        await site.session.files.write("/a.txt", b"the customer list")
        assert isinstance((await sent()).error, ApprovalRequired), "a new one is needed"
        assert there.got == []
        await site.session.files.write("/a.txt", b"harmless")
        assert (await sent()).data == {"length": 8, "type": "image/png"}
        assert there.last.body == b"harmless"
        await ready.try_call(site.tool("files_put"), body=encoded(b"the customer list", "/a.txt"))
        newest = (await site.kernel.approvals.list(ApprovalQuery(None, "pending"))).items[0]
        assert files_of(newest) == (), "a name is no path"
