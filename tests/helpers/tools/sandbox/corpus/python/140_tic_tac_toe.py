# Let a perfect player play tic-tac-toe against itself with minimax, and count the positions.
from functools import cache

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    for a, b, c in LINES:
        if board[a] != "." and board[a] == board[b] == board[c]:
            return board[a]
    return None


@cache
def value(board, player):
    if won := winner(board):
        return (1 if won == "X" else -1), None
    moves = [i for i, cell in enumerate(board) if cell == "."]
    if not moves:
        return 0, None
    other = "O" if player == "X" else "X"
    scored = [(value(board[:m] + player + board[m + 1:], other)[0], m) for m in moves]
    pick = max if player == "X" else min
    return pick(scored, key=lambda s: s[0])


board, player = "." * 9, "X"
while (move := value(board, player)[1]) is not None:
    board = board[:move] + player + board[move + 1:]
    player = "O" if player == "X" else "X"
    print(move, board[:3], board[3:6], board[6:])
print("winner:", winner(board) or "draw", "positions:", value.cache_info().currsize)
print(value("X.O.X.O..", "X"), value("XX.OO....", "O"))
