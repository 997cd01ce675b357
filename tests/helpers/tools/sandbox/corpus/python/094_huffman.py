# Build a Huffman code for this sentence: table, encoded bits, ratio, and decode it again.
import heapq
from collections import Counter
from itertools import count

text = "she sells sea shells by the sea shore"
frequency = Counter(text)
order = count()
heap = [(n, next(order), ch) for ch, n in sorted(frequency.items())]
heapq.heapify(heap)
while len(heap) > 1:
    n1, _, left = heapq.heappop(heap)
    n2, _, right = heapq.heappop(heap)
    heapq.heappush(heap, (n1 + n2, next(order), (left, right)))
root = heap[0][2]


def codes(node, prefix=""):
    if isinstance(node, str):
        return {node: prefix or "0"}
    return {**codes(node[0], prefix + "0"), **codes(node[1], prefix + "1")}


table = codes(root)
for ch, code in sorted(table.items(), key=lambda kv: (len(kv[1]), kv[1])):
    print(f"{ch!r} {frequency[ch]:>2} {code}")
bits = "".join(table[ch] for ch in text)
print(bits)
print(f"{len(bits)} bits instead of {len(text) * 8}: {len(bits) / (len(text) * 8):.2%}")

decoded, node = [], root
for bit in bits:
    node = node[int(bit)]
    if isinstance(node, str):
        decoded.append(node)
        node = root
print("".join(decoded) == text)
