# Show list slicing, nested lists, unpacking, and the list methods with short examples.
letters = list("abcdefghij")
print(letters[2:5], letters[:3], letters[-3:], letters[::3], letters[::-1][:2], letters[7:2:-2], letters[20:])
letters[1:3] = ["X", "Y", "Z"]
del letters[-1], letters[0]
letters[::4] = "*" * len(letters[::4])
print(letters)
first, *middle, last = range(6)
(a, b), [c, *d] = (1, 2), "xyz"
a, b = b, a
print(first, middle, last, a, b, c, d)
numbers = [5, 2, 9, 2, 7]
numbers.extend((1, 2))
numbers.insert(1, 100)
numbers.remove(2)
print(numbers, numbers.index(2), numbers.count(2), numbers.pop(1), numbers.pop(), sorted(numbers)[::-1])
numbers.reverse()
print(numbers, numbers * 2, [0] * 3 + [1], 9 in numbers, [1, 2] < [1, 3], min(numbers), numbers.copy() is numbers)
rows = [[1, 2, 3], [4, 5, 6]]
print([list(c) for c in zip(*rows)], [x for row in rows for x in row if x % 2], sum(rows, []), [row[1] for row in rows], rows[-1][-1])
for i, (x, y) in enumerate(zip("ab", [10, 20]), start=1):
    print(i, x, y, end="; ")
print([*map(lambda p, q: p * q, [1, 2], [3, 4])], any(n > 8 for n in numbers), all(n > 1 for n in numbers))
try:
    a, b = [1, 2, 3]
except ValueError as e:
    print("ValueError:", str(e)[:25])
