# Print this data as an aligned table in plain text and in Markdown, numbers to the right.
def table(rows, headers, markdown=False):
    cells = [[f"{c:,.2f}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(r[i]) for r in [headers, *cells]) for i in range(len(headers))]
    right = [all(isinstance(r[i], (int, float)) for r in rows) for i in range(len(headers))]

    def line(row):
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)]
        return "| " + " | ".join(parts) + " |"

    if markdown:
        rule = "|" + "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right)) + "|"
        return "\n".join([line(headers), rule, *map(line, cells)])
    edge = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    return "\n".join([edge, line(headers), edge, *map(line, cells), edge])


rows = [("Widget", 12, 1234.5, None), ("Gizmo XL", 7, 99.999, "sold out"), ("Ü", 1000, 0.0, True)]
headers = ["Product", "Qty", "Revenue", "Note"]
print(table(rows, headers))
print()
print(table(rows, headers, markdown=True))
total = sum(r[2] for r in rows)
print(f"\n{'TOTAL':.<30}{total:.>12,.2f}")
for name, qty, revenue, _ in rows:
    print(f"{name:<10}{'█' * round(revenue / total * 20):<20}{revenue / total:>7.1%}")
