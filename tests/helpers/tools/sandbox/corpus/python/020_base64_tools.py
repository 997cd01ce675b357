# Encode these values in base64, URL-safe base64, hex and base32, and decode this JWT's payload.
import base64
import binascii
import json

values = [b"hello", "héllo wörld".encode(), bytes([255, 254, 253, 0])]
for value in values:
    print(base64.b64encode(value).decode(), base64.urlsafe_b64encode(value).decode(), value.hex(), base64.b32encode(value).decode())

token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0IiwibmFtZSI6IkFkYSIsImFkbWluIjp0cnVlfQ.c2ln"


def segment(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


header, payload, signature = token.split(".")
print(json.loads(segment(header)), json.loads(segment(payload)), segment(signature))

try:
    base64.b64decode("abc")
except binascii.Error as error:
    print("error:", error)
print(binascii.hexlify(b"\x00\xff", "-"), bytes.fromhex("de ad be ef"), f"{binascii.crc32(b'hello'):08x}")
