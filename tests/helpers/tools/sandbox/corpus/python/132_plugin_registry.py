# Make a registry of plug-ins with a metaclass, and describe values with singledispatch.
from functools import singledispatch


class Registry(type):
    plugins = {}

    def __new__(mcs, name, bases, namespace, **kwargs):
        cls = super().__new__(mcs, name, bases, namespace)
        if bases:
            mcs.plugins[namespace.get("key", name.lower())] = cls
        return cls

    def __len__(cls):
        return len(cls.plugins)

    __iter__ = lambda cls: iter(sorted(cls.plugins))


class Plugin(metaclass=Registry):
    def run(self, text):
        raise NotImplementedError(type(self).__name__)


class Upper(Plugin):
    def run(self, text):
        return text.upper()


class Reverse(Plugin):
    key = "rev"

    def run(self, text):
        return text[::-1]


class Broken(Plugin):
    pass

print(len(Plugin), list(Plugin), [type(c).__name__ for c in (Upper, Plugin)])
for name in Plugin:
    try:
        print(name, Registry.plugins[name]().run("Hello"))
    except NotImplementedError as e:
        print(name, "not implemented:", e)

@singledispatch
def describe(value):
    return f"something: {value!r}"

@describe.register
def _(value: int):
    return f"int {value:+d}"

@describe.register(list)
@describe.register(tuple)
def _(value):
    return f"{type(value).__name__} of {len(value)}: " + "; ".join(map(describe, value))

print(describe([1, "a", (2.5,)]), describe(True), describe(None), sep="\n")
