# Simulate a vending machine as a state machine driven by a table of transitions.
PRICE = 150


class VendingMachine:
    def __init__(self, stock=2):
        self.state, self.credit, self.stock, self.log = "idle", 0, stock, []
        self.table = {
            ("idle", "coin"): self.insert,
            ("paying", "coin"): self.insert,
            ("ready", "coin"): self.insert,
            ("ready", "press"): self.vend,
            ("paying", "cancel"): self.refund,
            ("ready", "cancel"): self.refund,
        }

    def fire(self, event, value=None):
        action = self.table.get((self.state, event))
        before = self.state
        note = action(value) if action else "ignored"
        self.log.append(f"{before:>8} --{event}{'' if value is None else f'({value})'}--> {self.state:<8} credit={self.credit:<4}{note}")

    def insert(self, value):
        if value not in (10, 20, 50, 100, 200):
            return f"coin {value} rejected"
        self.credit += value
        self.state = "ready" if self.credit >= PRICE else "paying"
        return "ok"

    def vend(self, _):
        self.stock -= 1
        change, coins = self.credit - PRICE, []
        for coin in (200, 100, 50, 20, 10):
            n, change = divmod(change, coin)
            coins += [coin] * n
        self.credit, self.state = 0, "idle" if self.stock else "empty"
        return f"bottle, change {coins}"

    def refund(self, _):
        back, self.credit, self.state = self.credit, 0, "idle"
        return f"refund {back}"


machine = VendingMachine()
for event in ["coin 100", "coin 3", "press", "coin 100", "press", "coin 20", "cancel", "coin 200", "coin 10", "coin 20", "press", "coin 50"]:
    name, _, value = event.partition(" ")
    machine.fire(name, int(value) if value else None)
print("\n".join(machine.log))
