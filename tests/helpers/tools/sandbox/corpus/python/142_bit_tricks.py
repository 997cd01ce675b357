# Show useful bit operations: flags, packing RGB, counting, subsets, parity and Hamming codes.
def pack(r, g, b):
    return r << 16 | g << 8 | b


def unpack(n):
    return n >> 16 & 0xFF, n >> 8 & 0xFF, n & 0xFF


def encode(nibble):
    d = [nibble >> i & 1 for i in range(4)]
    p = [d[0] ^ d[1] ^ d[3], d[0] ^ d[2] ^ d[3], d[1] ^ d[2] ^ d[3]]
    return [p[0], p[1], d[0], p[2], d[1], d[2], d[3]]


def decode(bits):
    bits, position = list(bits), 0
    for i, bit in enumerate(bits, 1):
        position ^= i * bit
    if position:
        bits[position - 1] ^= 1
    return sum(bits[i] << n for n, i in enumerate((2, 4, 5, 6))), position


print(f"{pack(255, 160, 18):#08x}", unpack(0x00FF7F), [f"{c:02X}" for c in unpack(pack(1, 2, 3))])
print([bin(n & -n) for n in (12, 7, 40)], [n & (n - 1) == 0 for n in (16, 18, 1)], [n.bit_length() for n in (0, 1, 255, 256)])
print(sum(decode(encode(n)) == (n, 0) for n in range(16)))
for flip in (0, 3, 6):
    word = encode(11)
    word[flip] ^= 1
    print(word, decode(word))
mask, sub, subsets = 0b1011, 0b1011, []
while True:
    subsets.append(f"{sub:04b}")
    if not sub:
        break
    sub = (sub - 1) & mask
print(subsets, int("".join(reversed(f"{0b00010110:08b}")), 2))
x = 0
for v in [4, 9, 4, 7, 9]:
    x ^= v
print(x, (~0 & 0xFFFFFFFF), -1 >> 100, 1 << 100 >> 98, 0xFFFFFFFF * 0xFFFFFFFF & 0xFFFFFFFF, True + True, True << 3)
