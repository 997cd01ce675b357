# Give me mean, median, mode, standard deviation and quartiles of these response times.
import statistics

times = [120, 132, 101, 134, 90, 230, 210, 120, 132, 101, 134, 120, 98, 87, 345]

print("count   ", len(times))
print("mean    ", statistics.mean(times))
print("fmean   ", statistics.fmean(times))
print("median  ", statistics.median(times))
print("mode    ", statistics.mode(times))
print("modes   ", statistics.multimode(times))
print("stdev   ", round(statistics.stdev(times), 4))
print("pstdev  ", round(statistics.pstdev(times), 4))
print("variance", round(statistics.variance(times), 4))
q1, q2, q3 = statistics.quantiles(times, n=4)
print(f"quartiles {q1} {q2} {q3}")
iqr = q3 - q1
outliers = [t for t in times if t < q1 - 1.5 * iqr or t > q3 + 1.5 * iqr]
print("IQR", iqr, "outliers", outliers)
print("harmonic mean", f"{statistics.harmonic_mean(times):.6f}")
print("geometric mean", f"{statistics.geometric_mean(times):.6f}")
