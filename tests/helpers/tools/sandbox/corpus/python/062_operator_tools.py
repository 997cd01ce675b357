# Evaluate reverse Polish expressions with the operator module, and sort records with itemgetter and attrgetter.
import operator
from functools import reduce
from types import SimpleNamespace

OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
       "%": operator.mod, "^": operator.pow, "<": operator.lt, "&": operator.and_, "<<": operator.lshift}


def rpn(text):
    stack = []
    for token in text.split():
        if token in OPS:
            b, a = stack.pop(), stack.pop()
            stack.append(OPS[token](a, b))
        elif token == "neg":
            stack.append(operator.neg(stack.pop()))
        else:
            stack.append(float(token) if "." in token else int(token))
    (result,) = stack
    return result


for text in ["3 4 + 2 *", "5 1 2 + 4 * + 3 -", "2 3 2 ^ ^", "7 neg 2 //", "-7 3 %", "1 2 /", "6 3 & 1 <<", "1.5 2 <"]:
    print(f"{text:<20} = {rpn(text)}")

rows = [("x", 3, 1), ("y", 1, 2), ("z", 3, 0)]
print(sorted(rows, key=operator.itemgetter(1, 2)), list(map(operator.itemgetter(0), rows)))
things = [SimpleNamespace(name="b", size=SimpleNamespace(w=2)), SimpleNamespace(name="a", size=SimpleNamespace(w=9))]
print([t.name for t in sorted(things, key=operator.attrgetter("size.w"), reverse=True)], things[0])
print(reduce(operator.mul, range(1, 8)), operator.contains([1, 2], 2), operator.methodcaller("replace", "a", "o")("banana"))
try:
    rpn("1 +")
except IndexError as e:
    print("IndexError:", e)
