# Process a stream of readings lazily: parse, filter, window, and send values to a running average.
from itertools import count, islice, takewhile


def lines():
    for n in count(1):
        yield f"sensor{n % 3},{(n * 7919) % 100}"


def parse(source):
    for line in source:
        name, value = line.split(",")
        yield name, int(value)


def window(source, size):
    items = []
    for item in source:
        items.append(item)
        if len(items) == size:
            yield tuple(items)
            items = items[1:]


def running_average():
    total, n, average = 0, 0, None
    while True:
        value = yield average
        total, n = total + value, n + 1
        average = total / n


def flatten(x):
    for item in x:
        if isinstance(item, list):
            yield from flatten(item)
        else:
            yield item


values = (v for name, v in parse(lines()) if name == "sensor1")
first = list(islice(values, 6))
print(first)
print([sum(w) for w in window(first, 3)])
average = running_average()
next(average)
print([round(average.send(v), 3) for v in first])
print(list(flatten([1, [2, [3, [4]], 5], [], [[6]]])))
print(list(takewhile(lambda n: n < 40, (n * n for n in count()))))
