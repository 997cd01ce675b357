# Write three files and make a SHA-256 manifest of them; then change one and find which one it was.
import hashlib
from pathlib import Path

contents = {"a.txt": b"alpha\n", "b.bin": bytes(range(256)), "empty.dat": b""}
for name, data in contents.items():
    Path(name).write_bytes(data)


def digest(path, algorithm="sha256"):
    h = hashlib.new(algorithm)
    with open(path, "rb") as f:
        for chunk in iter(lambda: f.read(100), b""):
            h.update(chunk)
    return h.hexdigest()


manifest = {name: digest(name) for name in sorted(contents)}
for name, value in manifest.items():
    print(f"{value}  {name}")

with open("a.txt", "ab") as f:
    f.write(b"!")
print("changed:", [name for name, value in manifest.items() if digest(name) != value])
print(hashlib.md5(b"hello").hexdigest(), hashlib.sha1(b"hello").hexdigest())
print(hashlib.blake2b(b"hello", digest_size=8).hexdigest(), hashlib.sha3_256(b"").hexdigest()[:16])
print(hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1000).hex())
