# Build a binary search tree; traverse it in all orders, print it sideways, and remove a node.
class Tree:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None

    def insert(self, key):
        side = "left" if key < self.key else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Tree(key))
        else:
            child.insert(key)
        return self

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.key
        if self.right:
            yield from self.right

    def preorder(self):
        yield self.key
        for child in filter(None, (self.left, self.right)):
            yield from child.preorder()

    def height(self):
        return 1 + max((c.height() for c in (self.left, self.right) if c), default=0)

    def show(self, level=0):
        if self.right:
            self.right.show(level + 1)
        print("    " * level + str(self.key))
        if self.left:
            self.left.show(level + 1)


def remove(node, key):
    if node is None:
        return None
    if key < node.key:
        node.left = remove(node.left, key)
    elif key > node.key:
        node.right = remove(node.right, key)
    elif node.left and node.right:
        node.key = min(node.right)
        node.right = remove(node.right, node.key)
    else:
        return node.left or node.right
    return node


root = Tree(50)
for key in (30, 70, 20, 40, 60, 80, 35, 45, 65):
    root.insert(key)
print(*root)
print(list(root.preorder()), root.height(), sum(root))
root = remove(remove(root, 30), 70)
root.show()
print(*root, 30 in root, [k for k in root if k % 20 == 0])
