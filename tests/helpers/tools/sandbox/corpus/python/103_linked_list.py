# Implement a linked list with iteration, insertion, reversal, a cycle check and merging.
class Node:
    __slots__ = ("value", "next")

    def __init__(self, value, next=None):
        self.value, self.next = value, next


class LinkedList:
    def __init__(self, values=()):
        self.head = None
        for v in reversed(list(values)):
            self.head = Node(v, self.head)

    def __iter__(self):
        node = self.head
        while node:
            yield node.value
            node = node.next

    def __repr__(self):
        return " -> ".join([*map(str, self), "None"])

    def __len__(self):
        return sum(1 for _ in self)

    def __getitem__(self, i):
        for n, v in enumerate(self):
            if n == i:
                return v
        raise IndexError(i)

    def reverse(self):
        previous, node = None, self.head
        while node:
            node.next, previous, node = previous, node, node.next
        self.head = previous

    def has_cycle(self):
        slow = fast = self.head
        while fast and fast.next:
            slow, fast = slow.next, fast.next.next
            if slow is fast:
                return True
        return False


values = LinkedList([3, 1, 4, 1, 5])
print(values, len(values), values[2], 4 in values, max(values), sorted(values), list(reversed(values)))
values.reverse()
print(values, bool(LinkedList()), LinkedList("ab"))
first, second, *rest = values
print(first, second, rest, values.has_cycle())
ring = LinkedList(range(3))
ring.head.next.next.next = ring.head
print(ring.has_cycle())
try:
    values[9]
except IndexError as e:
    print("IndexError", e)
