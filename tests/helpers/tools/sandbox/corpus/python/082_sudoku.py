# Solve this sudoku by backtracking, and say how many guesses it took.
PUZZLE = """
..53.....
8......2.
.7..1.5..
4....53..
.1..7...6
..32...8.
.6.5....9
..4....3.
.....97..
"""

board = [[0 if ch == "." else int(ch) for ch in line] for line in PUZZLE.split()]
guesses = 0


def candidates(r, c):
    used = set(board[r]) | {board[i][c] for i in range(9)}
    br, bc = 3 * (r // 3), 3 * (c // 3)
    used |= {board[i][j] for i in range(br, br + 3) for j in range(bc, bc + 3)}
    return [d for d in range(1, 10) if d not in used]


def solve():
    global guesses
    empty = [(len(options), r, c, options) for r in range(9) for c in range(9)
             if not board[r][c] and (options := candidates(r, c)) is not None]
    if not empty:
        return True
    _, r, c, options = min(empty)
    for digit in options:
        guesses += len(options) > 1
        board[r][c] = digit
        if solve():
            return True
        board[r][c] = 0
    return False


print("solved:", solve(), "guesses:", guesses)
for i, row in enumerate(board):
    if i in (3, 6):
        print("------+-------+------")
    print(" | ".join(" ".join(map(str, row[j:j + 3])) for j in (0, 3, 6)))
assert all(len(set(row)) == 9 for row in board)
print("".join(str(board[i][i]) for i in range(9)), sum(map(sum, board)))
