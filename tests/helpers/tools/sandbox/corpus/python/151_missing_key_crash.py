# Total the amounts of these orders from JSON; one order lacks its amount, and the KeyError may end the script.
import json

orders = json.loads('[{"id": 1, "amount": 9.5}, {"id": 2, "amount": "3.25"}, {"id": 3}, {"id": 4, "amount": 1}]')
total = 0
for order in orders:
    amount = float(order["amount"])
    total += amount
    print(f"order {order['id']}: {amount:.2f}, so far {total:.2f}")
print("total", total)
