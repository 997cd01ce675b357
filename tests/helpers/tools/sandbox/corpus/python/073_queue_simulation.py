# Simulate one bank counter for 100 customers with a fixed seed: mean waiting time and longest queue.
import heapq
import random
from collections import deque
from statistics import mean

rng = random.Random(2024)
events = []
clock = 0.0
for customer in range(100):
    clock += rng.expovariate(1 / 3.0)
    heapq.heappush(events, (clock, "arrive", customer))

queue, busy, waits, arrived, longest, idle, free_since = deque(), False, [], {}, 0, 0.0, 0.0
while events:
    now, kind, customer = heapq.heappop(events)
    if kind == "arrive":
        arrived[customer] = now
        queue.append(customer)
    else:
        busy, free_since = False, now
    if queue and not busy:
        nxt = queue.popleft()
        idle += now - max(free_since, 0.0)
        waits.append(now - arrived[nxt])
        heapq.heappush(events, (now + rng.uniform(1.0, 4.5), "leave", nxt))
        busy = True
    longest = max(longest, len(queue))

print(f"customers served: {len(waits)}")
print(f"mean wait: {mean(waits):.3f} min, longest wait: {max(waits):.3f} min")
print(f"waited at all: {sum(w > 0 for w in waits)}, longest queue: {longest}")
print(f"closing time: {now:.3f}, idle: {idle / now:.2%}")
