# Write a gzip-compressed log, then stream through it and count the errors without unpacking it.
import gzip
import zlib

lines = [f"{i:04d} {'ERROR' if i % 17 == 0 else 'INFO'} request took {i * 37 % 101} ms" for i in range(300)]
with gzip.open("app.log.gz", "wt", encoding="utf-8") as f:
    f.write("\n".join(lines) + "\n")

errors = 0
slowest = 0
with gzip.open("app.log.gz", "rt", encoding="utf-8") as f:
    for line in f:
        _, level, *_, ms, _ = line.split()
        errors += level == "ERROR"
        slowest = max(slowest, int(ms))
print("errors:", errors, "slowest:", slowest)

with open("app.log.gz", "rb") as f:
    head = f.read(2)
print("magic:", head.hex())
blob = b"abc" * 1000
packed = zlib.compress(blob, 9)
print(len(packed) < 100, zlib.decompress(packed) == blob, zlib.crc32(blob), zlib.adler32(blob))
print(gzip.decompress(gzip.compress(b"round trip")).decode())
