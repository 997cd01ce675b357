# Pretty-print a deeply nested structure in several widths.
from pprint import pformat, pprint

data = {
    "users": [
        {"id": 1, "name": "Ann Example", "roles": ["admin", "editor", "reader"], "address": {"city": "Ulm", "zip": "89073"}},
        {"id": 2, "name": "Bob", "roles": [], "address": None},
    ],
    "meta": {"version": 3, "flags": {"beta": True, "alpha": False}, "numbers": list(range(25))},
    "text": "a long text that goes on and on so that it has to be broken over several lines by pprint " * 2,
}
pprint(data)
print("-" * 20)
pprint(data["users"], width=40, indent=2)
pprint(data, depth=2, sort_dicts=False, width=60, compact=True)
print(pformat({3: "c", 1: "a", 2: "b"}), pformat([]), len(pformat(data).splitlines()))
pprint({"b": (1,), "a": {1, 2, 3}, "c": frozenset(["q"])})
