# Pack sensor records into a binary format with a header, then read them back.
import struct

HEADER = struct.Struct(">4sHI")
RECORD = struct.Struct("<Ihf?")

readings = [(1700000000, -12, 3.5, True), (1700000060, 7, 2.25, False), (1700000120, 32767, -0.125, True)]

with open("data.bin", "wb") as f:
    f.write(HEADER.pack(b"SENS", 2, len(readings)))
    for r in readings:
        f.write(RECORD.pack(*r))

with open("data.bin", "rb") as f:
    magic, version, count = HEADER.unpack(f.read(HEADER.size))
    print(magic.decode(), version, count, HEADER.size, RECORD.size)
    body = f.read()

for stamp, temp, level, ok in RECORD.iter_unpack(body):
    print(stamp, temp, level, ok)

print(struct.pack("!H", 258), struct.unpack("<d", struct.pack("<d", 0.1))[0])
print((1024).to_bytes(4, "little"), int.from_bytes(b"\xff\xfe", "big", signed=True), struct.calcsize("<bhiq"))
try:
    struct.pack("B", 300)
except struct.error as e:
    print("struct.error:", "0 <= number <= 255" in str(e))
