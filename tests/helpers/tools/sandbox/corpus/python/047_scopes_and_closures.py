# Show the pitfalls of scopes: loop variables in lambdas, comprehensions, nonlocal, global, defaults.
x = "module"
squares = [x * x for x in range(4)]
print(x, squares)

late = [lambda: i for i in range(3)]
early = [lambda i=i: i for i in range(3)]
print([f() for f in late], [f() for f in early])


def counter():
    n = 0

    def step(by=1):
        nonlocal n
        n += by
        return n

    return step


a, b = counter(), counter()
print(a(), a(5), b(), a.__closure__[0].cell_contents)

def append(value, to=[]):
    to.append(value)
    return to

print(append(1), append(2), append(3, []))

total = 0


def add(values):
    global total
    for total in (total + v for v in values):
        pass
    return total


print(add([1, 2, 3]), total)

class Config:
    base = 10
    scaled = [base * 2 for _ in range(1)] if False else base * 2
    table = {k: v for k, v in zip("ab", range(2))}

print(Config.scaled, Config.table)

def broken():
    print(total)
    total = 1

try:
    broken()
except UnboundLocalError as e:
    print(type(e).__name__, isinstance(e, NameError))
for i in range(3):
    pass
print(i, {v: k for k, v in {"a": 1, "b": 2}.items()}, {c for c in "hello"} == set("helo"))
