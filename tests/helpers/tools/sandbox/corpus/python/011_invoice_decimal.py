# Make an invoice with exact cents: 3 items, 7.5% discount, 19% VAT, rounding half up.
from decimal import ROUND_HALF_UP, Decimal, getcontext

CENT = Decimal("0.01")
items = [("Notebook", 3, "2.35"), ("Pen", 12, "0.89"), ("Backpack", 1, "49.995")]

subtotal = Decimal(0)
for name, qty, price in items:
    line = (qty * Decimal(price)).quantize(CENT, rounding=ROUND_HALF_UP)
    subtotal += line
    print(f"{name:<10} {qty:>3} x {price:>7} = {line:>8}")

discount = (subtotal * Decimal("0.075")).quantize(CENT, ROUND_HALF_UP)
net = subtotal - discount
vat = (net * Decimal("0.19")).quantize(CENT, ROUND_HALF_UP)
print("Subtotal ", subtotal)
print("Discount ", -discount)
print("VAT      ", vat)
print("Total    ", net + vat)

print(Decimal("0.1") + Decimal("0.2") == Decimal("0.3"), 0.1 + 0.2 == 0.3)
getcontext().prec = 30
print(Decimal(1) / Decimal(7), Decimal(2).sqrt())
print(Decimal("1E+3").normalize(), Decimal("1500.00").normalize(), f"{Decimal('1234567.891'):,.2f}")
