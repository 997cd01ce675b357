# Format this text as a narrow column with a hanging indent, and dedent the code in it.
import textwrap

text = (
    "Machine learning is a field of study concerned with the development of statistical algorithms that can "
    "learn from data and generalise to unseen data, and thus perform tasks without explicit instructions."
)

print(textwrap.fill(text, width=40, initial_indent="* ", subsequent_indent="  "))
print()
for number, line in enumerate(textwrap.wrap(text, 50), 1):
    print(f"{number:02d} |{line:<50}| {len(line)}")
print()
code = """
    def f(x):
        if x:
            return 1
        return 2
    """
print(textwrap.dedent(code).strip())
print(textwrap.indent("first\n\nsecond", "> "))
print(textwrap.shorten(text, width=60, placeholder=" [...]"))
print(textwrap.wrap("a-very-long-hyphenated-word andaverylongunbrokenword", 12))
