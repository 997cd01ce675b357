# Merge these settings from defaults, a file and the user, deeply, and show what came from where.
defaults = {"ui": {"theme": "light", "font": {"size": 12, "face": "serif"}}, "retries": 3, "paths": ["a"]}
from_file = {"ui": {"font": {"size": 14}}, "paths": ["b", "c"]}
user = {"ui": {"theme": "dark"}, "retries": None, "extra": {"x": 1}}


def merge(*layers):
    result = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, dict) and isinstance(result.get(key), dict):
                result[key] = merge(result[key], value)
            elif value is not None:
                result[key] = value
    return result


def leaves(d, path=()):
    for k, v in d.items():
        if isinstance(v, dict):
            yield from leaves(v, path + (k,))
        else:
            yield ".".join(path + (k,)), v


for path, value in leaves(merge(defaults, from_file, user)):
    source = next(n for n, layer in (("user", user), ("file", from_file), ("defaults", defaults)) if dict(leaves(layer)).get(path) == value)
    print(f"{path:<16}{value!r:<14}{source}")
a, b = {"x": 1, "y": 2}, {"y": 3, "z": 4}
print(a | b, {**b, **a}, a.keys() & b.keys(), sorted(a.items() ^ b.items()))
a |= [("w", 0)]
print(a, a.pop("q", "none"), a.setdefault("v", []), list(a), list(reversed(a.values())), dict.fromkeys("ab", 0), a.popitem())
