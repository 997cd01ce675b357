# Implement an LRU cache with OrderedDict and show what is evicted.
from collections import ChainMap, OrderedDict, UserDict, namedtuple


class LRU(OrderedDict):
    def __init__(self, capacity):
        super().__init__()
        self.capacity, self.hits, self.misses = capacity, 0, 0

    def get(self, key, default=None):
        if key not in self:
            self.misses += 1
            return default
        self.hits += 1
        self.move_to_end(key)
        return super().__getitem__(key)

    def put(self, key, value):
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.capacity:
            return self.popitem(last=False)


cache = LRU(3)
for key in "ABCADBEA":
    if (value := cache.get(key)) is None:
        evicted = cache.put(key, ord(key))
        print(f"miss {key} evicted={evicted} now={''.join(cache)}")
    else:
        print(f"hit  {key} value={value} now={''.join(cache)}")
print(Stats := namedtuple("Stats", "hits misses")(cache.hits, cache.misses), Stats.hits / sum(Stats))
print(OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1), {"a": 1, "b": 2} == {"b": 2, "a": 1})


class Lower(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __missing__(self, key):
        return f"<no {key}>"


d = Lower({"Content-Type": "text"}, HOST="x")
print(d, d["nope"], "host" in d)
settings = ChainMap({"debug": True}, {"debug": False, "port": 80})
settings["new"] = 1
print(settings["debug"], settings["port"], settings.maps, dict(settings.parents))
