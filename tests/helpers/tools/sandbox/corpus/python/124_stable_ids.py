# Make stable identifiers from names: UUID v5, short hashes, slugs, and check for collisions.
import hashlib
import re
import unicodedata
import uuid

names = ["Hello World!", "hello  world", "Crème Brûlée (2 pcs.)", "C++ & C#", "日本語", "  --x--  ", "hello-world"]


def slug(text):
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "n-a"


seen = {}
for name in names:
    base = slug(name)
    n = seen[base] = seen.get(base, 0) + 1
    final = base if n == 1 else f"{base}-{n}"
    print(f"{final:<22}{uuid.uuid5(uuid.NAMESPACE_URL, name)} {hashlib.sha256(name.encode()).hexdigest()[:8]}")

u = uuid.UUID("12345678-1234-5678-1234-567812345678")
print(u.hex, u.version, u.int % 97, uuid.UUID(bytes=u.bytes) == u, uuid.uuid3(uuid.NAMESPACE_DNS, "example.org"))
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
n, code = int(hashlib.md5(b"order-77").hexdigest()[:12], 16), ""
while n:
    n, d = divmod(n, 32)
    code = ALPHABET[d] + code
print(code)
buckets = [0] * 5
for i in range(1000):
    buckets[int.from_bytes(hashlib.sha1(f"user{i}".encode()).digest()[:4], "big") % 5] += 1
print(buckets)
