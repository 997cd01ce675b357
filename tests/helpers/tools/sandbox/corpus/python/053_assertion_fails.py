# Check the invariants of this matrix transformation with assertions, and stop at the first that does not hold.
def transpose(m):
    return [list(row) for row in zip(*m)]


def trace(m):
    return sum(m[i][i] for i in range(len(m)))


matrix = [[2, 0, 1], [4, 5, 6], [7, 8, 10]]
assert transpose(transpose(matrix)) == matrix
print("double transpose holds")
assert trace(matrix) == trace(transpose(matrix)), "trace changed"
print("trace is", trace(matrix))
symmetric = transpose(matrix) == matrix
assert symmetric, f"matrix is not symmetric: {matrix[0][1]} != {matrix[1][0]}"
print("symmetric")
