"""The keys of checkpoints, in each form in which somebody may keep them (spec 4, G21)."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from capset.errors import DefinitionError
from capset.fingerprint.checkpoints import CheckpointKey, PublicKey


@pytest.mark.spec("G21")
def test_a_signature_holds_for_its_own_key_and_bytes_only() -> None:
    key, other = CheckpointKey.generate(), CheckpointKey.generate()
    signature = key.sign(b"data")
    assert key.public.verifies(signature, b"data")
    for public, text, data in (
        *((key.public, signature, b"date"), (other.public, signature, b"data"), (key.public, "no base64!", b"data")),
    ):
        assert not public.verifies(text, data)


def test_a_key_comes_back_from_pem_from_base64_and_from_a_file(tmp_path: Path) -> None:
    private_key = ed25519.Ed25519PrivateKey.generate()
    raw = base64.b64encode(private_key.private_bytes_raw()).decode()
    public = base64.b64encode(private_key.public_key().public_bytes_raw()).decode()
    key = CheckpointKey.load(raw)
    (tmp_path / "key").write_text(key.pem())
    (tmp_path / "key.pub").write_text(key.public.pem())
    for loaded in (CheckpointKey.load(key.pem()), CheckpointKey.load(f"{raw}\n"), CheckpointKey.read(tmp_path / "key")):
        assert loaded.public.id == key.public.id
    for half in (PublicKey.load(public), PublicKey.load(key.public.pem()), PublicKey.read(tmp_path / "key.pub")):
        assert half.id == key.public.id
        assert half.verifies(key.sign(b"x"), b"x")


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    key = CheckpointKey.generate()
    curve = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"secret")
    encrypted = ed25519.Ed25519PrivateKey.generate().private_bytes(pem, pkcs8, locked).decode()
    strange = curve.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode()
    theirs = curve.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    for text, problem in (
        *(("hunter2", "32 bytes in base64"), ("", "32 bytes in base64"), (key.public.pem(), "this is a public one")),
        *((encrypted, "needs a password"), (strange, "must be an Ed25519 key")),
        ("-----BEGIN PRIVATE KEY-----\nhunter2", "cannot be read"),
    ):
        with pytest.raises(DefinitionError, match=problem) as failure:
            CheckpointKey.load(text)
        assert "hunter2" not in str(failure.value)
    for text, problem in (("hunter2", "32 bytes"), (key.pem(), "this is a private one"), (theirs, "an Ed25519 key")):
        with pytest.raises(DefinitionError, match=problem):
            PublicKey.load(text)
    (tmp_path / "binary").write_bytes(b"\xff" * 99)
    with pytest.raises(DefinitionError, match="there is no key in"):
        PublicKey.read(tmp_path / "binary")


@pytest.mark.realtime
def test_the_library_of_signatures_is_loaded_where_something_is_signed() -> None:
    code = "import sys, capset.fingerprint.chain, capset; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
