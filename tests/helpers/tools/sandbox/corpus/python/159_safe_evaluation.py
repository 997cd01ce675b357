# Evaluate Python literals and simple formulas from users safely with ast, and reject the rest.
import ast
import operator

OPS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
       ast.Pow: operator.pow, ast.USub: operator.neg, ast.Mod: operator.mod}


def evaluate(text, **names):
    def visit(node):
        if isinstance(node, ast.Expression):
            return visit(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPS:
            return OPS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPS:
            return OPS[type(node.op)](visit(node.operand))
        raise ValueError(f"not allowed: {type(node).__name__}")

    return visit(ast.parse(text, mode="eval"))


for text in ["2 + 3 * 4", "-(x - 1) ** 2", "x % 4 / y", "__import__('os')", "[1, 2]", "2 +", "'a' * 3"]:
    try:
        print(f"{text:<18} -> {evaluate(text, x=11, y=0.5)}")
    except (ValueError, SyntaxError) as e:
        print(f"{text:<18} -> {type(e).__name__}{': ' + str(e) if isinstance(e, ValueError) else ''}")
for text in ["{'a': [1, (2.5, None)], 'b': {True}}", "-7", "b'xy'", "1 + 1j", "open('x')"]:
    try:
        print(repr(ast.literal_eval(text)))
    except ValueError:
        print("no literal:", text)
tree = ast.parse("def f(a, b=1):\n    return a + b\nclass C: pass\nx = f(2)")
print([type(n).__name__ for n in tree.body], ast.unparse(tree.body[0]).splitlines()[-1].strip())
space = {}
exec("def twice(v):\n    return v * 2\nresult = twice(21)", space)
print(space["result"], eval("a * b + len(c)", {"a": 6, "b": 7}, {"c": "xyz"}), eval(compile("1 << 5", "<text>", "eval")))
