# Group these page views into sessions: same user, gaps of at most 30 minutes.
from itertools import accumulate, groupby
from operator import itemgetter

views = [
    ("ann", 0, "/"), ("bob", 2, "/pricing"), ("ann", 10, "/docs"), ("ann", 55, "/docs/api"),
    ("bob", 31, "/signup"), ("cat", 5, "/"), ("ann", 70, "/login"), ("bob", 90, "/"),
]

views.sort(key=itemgetter(0, 1))
for user, rows in groupby(views, key=itemgetter(0)):
    rows = list(rows)
    gaps = [0] + [b[1] - a[1] for a, b in zip(rows, rows[1:])]
    numbers = accumulate(1 if gap > 30 else 0 for gap in gaps)
    print(user)
    for number, session in groupby(zip(numbers, rows), key=itemgetter(0)):
        pages = [row for _, row in session]
        length = pages[-1][1] - pages[0][1]
        print(f"  session {number + 1}: {length:>3} min, {' -> '.join(p[2] for p in pages)}")
