# Simulate foxes and rabbits with the Lotka-Volterra equations, and draw the curves as text.
def step(x, y, dt, a=1.1, b=0.4, c=0.4, d=0.1):
    def rates(x, y):
        return a * x - b * x * y, d * x * y - c * y

    k1 = rates(x, y)
    k2 = rates(x + dt / 2 * k1[0], y + dt / 2 * k1[1])
    k3 = rates(x + dt / 2 * k2[0], y + dt / 2 * k2[1])
    k4 = rates(x + dt * k3[0], y + dt * k3[1])
    return (
        x + dt / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0]),
        y + dt / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1]),
    )


x, y, t, dt = 10.0, 10.0, 0.0, 0.01
peaks, history = [], []
for n in range(3001):
    if n % 150 == 0:
        history.append((t, x, y))
    nx, ny = step(x, y, dt)
    if len(history) > 1 and before < x > nx:
        peaks.append((round(t, 2), round(x, 4)))
    before, x, y, t = x, nx, ny, t + dt

scale = 50 / max(max(r, f) for _, r, f in history)
for t, rabbits, foxes in history:
    line = [" "] * 52
    line[round(rabbits * scale)] = "r"
    line[round(foxes * scale)] = "f" if line[round(foxes * scale)] == " " else "*"
    print(f"{t:5.1f} {rabbits:7.3f} {foxes:7.3f} |{''.join(line).rstrip()}")
print("peaks of rabbits:", peaks)
print("period:", round((peaks[-1][0] - peaks[0][0]) / (len(peaks) - 1), 3))
