# Flatten these nested JSON lines into rows with dotted keys, skip broken lines, and total by type.
import json
from collections import Counter

LINES = '''{"id": 1, "type": "click", "user": {"name": "ann", "geo": {"cc": "DE", "pos": [52.5, 13.4]}}}
{"id": 2, "type": "buy", "user": {"name": "bob"}, "cart": [{"sku": "x", "n": 2}, {"sku": "y", "n": 1}]}
{"id": 3, "type": "click"
{"id": 4, "type": "buy", "user": null, "cart": [], "note": "caf\\u00e9 \\"q\\" \\n"}'''


def flatten(value, prefix=""):
    if isinstance(value, dict) and value:
        for k, v in value.items():
            yield from flatten(v, f"{prefix}.{k}" if prefix else k)
    elif isinstance(value, list) and value:
        for i, v in enumerate(value):
            yield from flatten(v, f"{prefix}[{i}]")
    else:
        yield prefix, value


def unflatten(row):
    result = {}
    for path, value in row.items():
        node, keys = result, path.split(".")
        for k in keys[:-1]:
            node = node.setdefault(k, {})
        node[keys[-1]] = value
    return result


types = Counter()
for number, line in enumerate(LINES.splitlines(), 1):
    try:
        event = json.loads(line)
    except json.JSONDecodeError as e:
        print(f"line {number}: {e.msg} at column {e.colno}")
        continue
    types[event["type"]] += 1
    print(dict(flatten(event)))
print(types, unflatten({"a.b.c": 1, "a.b.d": 2, "e": 3}))
