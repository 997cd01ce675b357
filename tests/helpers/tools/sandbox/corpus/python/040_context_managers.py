# Show context managers: one by class, one by generator, ExitStack, and what happens on errors.
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress


class Section:
    depth = 0

    def __init__(self, title):
        self.title = title

    def __enter__(self):
        print("  " * Section.depth + f"<{self.title}>")
        Section.depth += 1
        return self

    def __exit__(self, kind, error, trace):
        Section.depth -= 1
        print("  " * Section.depth + f"</{self.title}>" + (f" [{kind.__name__}: {error}]" if kind else ""))
        return kind is ZeroDivisionError


@contextmanager
def changed(mapping, **values):
    old = dict(mapping)
    mapping.update(values)
    try:
        yield mapping
    finally:
        mapping.clear()
        mapping.update(old)


with Section("outer"), Section("inner"):
    print("    body")
    1 / 0
print("still here")

settings = {"color": "red"}
with suppress(KeyError), changed(settings, color="blue", size=3) as s:
    print(s)
    s["missing"]
print(settings)

with ExitStack() as stack:
    for name in "abc":
        stack.callback(print, "closing", name)
    stack.enter_context(Section("stacked"))

with closing(iter_ := (n for n in range(3))), nullcontext(5) as five:
    print(next(iter_), five)
print(list(iter_))
