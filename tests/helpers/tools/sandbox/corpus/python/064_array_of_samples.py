# Store audio samples compactly in an array, normalise them, and write them as bytes.
import sys
from array import array

samples = array("h", [0, 1200, -3400, 32767, -32768, 15])
print(samples, samples.typecode, samples.itemsize, len(samples))
samples.append(7)
samples.extend([1, 2])
samples.insert(0, -1)
peak = max(abs(s) for s in samples)
floats = array("d", (round(s / peak, 4) for s in samples))
print(peak, floats.tolist())
if sys.byteorder == "big":
    samples.byteswap()
raw = samples.tobytes()
print(raw.hex())
again = array("h")
again.frombytes(raw)
print(again == samples, again.index(1200), again.count(1), again[2:5], again[::-1][0])
try:
    samples.append(40000)
except OverflowError as e:
    print("OverflowError:", e)
try:
    array("i", [1.5])
except TypeError as e:
    print("TypeError")
with open("s.raw", "wb") as f:
    samples.tofile(f)
view = memoryview(bytearray(b"abcdef"))
view[1:3] = b"XY"
print(bytes(view), view.nbytes, bytearray(b"ab") * 2)
