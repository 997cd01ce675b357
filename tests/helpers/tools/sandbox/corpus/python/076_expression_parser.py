# Write a calculator that parses expressions with precedence, brackets, functions and variables.
import math
import re
TOKEN = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(\*\*|[-+*/^%(),=])|\s+|(.)")


class Parser:
    def __init__(self, text, names):
        self.names, self.pos, self.tokens = names, 0, []
        for m in TOKEN.finditer(text):
            if m.lastindex == 4:
                raise SyntaxError(f"unexpected {m[0]!r} at {m.start()}")
            self.tokens += [m[0]] if m[0].strip() else []

    def peek(self):
        return self.tokens[self.pos] if self.pos < len(self.tokens) else None

    def take(self, wanted=None):
        token = self.peek()
        if wanted and token != wanted:
            raise SyntaxError(f"expected {wanted!r}, got {token!r}")
        self.pos += 1
        return token

    def sum(self):
        value = self.product()
        while self.peek() in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self):
        value = self.unary()
        while self.peek() in ("*", "/", "%"):
            op, right = self.take(), self.unary()
            value = value * right if op == "*" else value / right if op == "/" else value % right
        return value

    def unary(self):
        return -self.unary() if self.peek() == "-" and self.take() else self.power()

    def power(self):
        base = self.atom()
        return base ** self.unary() if self.peek() in ("^", "**") and self.take() else base

    def atom(self):
        if (token := self.take()) == "(":
            value = self.sum()
            self.take(")")
            return value
        if token in self.names:
            value = self.names[token]
            return value(self.atom()) if callable(value) else value
        return float(token)

names = {"pi": math.pi, "sqrt": math.sqrt, "abs": abs, "x": 3.0}
for text in ["1 + 2 * 3", "(1+2)*3", "-2^2", "2^3^2", "sqrt(16) + abs(-3)", "10 / 4 % 2", "2 * pi * x", "1e3 - .5", "4 $ 4", "(1", "1/0", "y*2"]:
    try:
        print(f"{text:<20} = {Parser(text, names).sum():g}")
    except Exception as e:
        print(f"{text:<20} ! {type(e).__name__}: {e}")
