# Write a tokenizer for a small language with line and column numbers, and an indentation check.
import re
from typing import Iterator, NamedTuple

CODE = '''let total = 0
for item in items {
  total = total + item.price * 1.19  # with tax
  if total >= 1e3 { print("too \\"much\\"", total) }
}
@'''


class Token(NamedTuple):
    kind: str
    text: str
    line: int
    column: int


SPEC = [
    ("NUMBER", r"\d+(?:\.\d+)?(?:e\d+)?"), ("STRING", r'"(?:\\.|[^"\\])*"'), ("COMMENT", r"\#[^\n]*"),
    ("OP", r">=|<=|==|[-+*/=<>.]"), ("NAME", r"[A-Za-z_]\w*"), ("PUNCT", r"[{}(),]"),
    ("NEWLINE", r"\n"), ("SPACE", r"[ \t]+"), ("WRONG", r"."),
]
MASTER = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in SPEC))
KEYWORDS = frozenset({"let", "for", "in", "if"})


def tokenize(code: str) -> Iterator[Token]:
    line, start = 1, 0
    for m in MASTER.finditer(code):
        kind, text, column = m.lastgroup, m.group(), m.start() - start + 1
        if kind == "NEWLINE":
            line, start = line + 1, m.end()
        elif kind == "WRONG":
            raise SyntaxError(f"{line}:{column}: unexpected {text!r}")
        elif kind not in ("SPACE", "COMMENT"):
            yield Token(text.upper() if text in KEYWORDS else kind, text, line, column)


tokens = []
try:
    for token in tokenize(CODE):
        tokens.append(token)
        print(f"{token.line}:{token.column:<3} {token.kind:<7} {token.text}")
except SyntaxError as e:
    print("error", e.msg)
print(len(tokens), max(tokens, key=lambda t: len(t.text)).text, sorted({t.kind for t in tokens}))
