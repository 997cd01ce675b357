# Find the five largest and three smallest orders, and merge the sorted feeds of two shops.
import heapq

orders = [
    ("A-101", 250.0), ("A-102", 75.5), ("A-103", 990.25), ("A-104", 12.0),
    ("A-105", 430.0), ("A-106", 430.0), ("A-107", 8.75), ("A-108", 615.4),
]

print("Largest:")
for rank, (order_id, amount) in enumerate(heapq.nlargest(5, orders, key=lambda o: o[1]), start=1):
    print(f"  {rank}. {order_id} {amount:8.2f}")

print("Smallest:", [o[0] for o in heapq.nsmallest(3, orders, key=lambda o: o[1])])

shop_a = [(1, "a"), (4, "a"), (9, "a")]
shop_b = [(2, "b"), (3, "b"), (9, "b"), (12, "b")]
print("Merged:", list(heapq.merge(shop_a, shop_b)))

heap = []
for priority, task in [(5, "write docs"), (1, "fix outage"), (3, "review"), (1, "call client")]:
    heapq.heappush(heap, (priority, task))
while heap:
    priority, task = heapq.heappop(heap)
    print(priority, task)

numbers = [9, 4, 7, 1, 8]
heapq.heapify(numbers)
print(heapq.heappushpop(numbers, 0), heapq.heapreplace(numbers, 5), sorted(numbers))
