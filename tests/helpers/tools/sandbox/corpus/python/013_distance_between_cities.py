# What are the great-circle distances between these cities, in km?
import math
from itertools import combinations

cities = {
    "London": (51.5074, -0.1278),
    "Paris": (48.8566, 2.3522),
    "New York": (40.7128, -74.0060),
    "Sydney": (-33.8688, 151.2093),
}


def haversine(a, b, radius=6371.0):
    lat1, lon1, lat2, lon2 = map(math.radians, (*a, *b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * radius * math.asin(math.sqrt(h))


distances = {(a, b): haversine(cities[a], cities[b]) for a, b in combinations(cities, 2)}
for (a, b), km in sorted(distances.items(), key=lambda x: x[1]):
    print(f"{a:>9} - {b:<9} {km:10.1f} km {km * 0.621371:9.1f} mi")

print(math.isclose(math.hypot(3, 4), 5), math.floor(-2.5), math.ceil(-2.5), math.trunc(-2.5))
print(math.gcd(84, 36), math.lcm(4, 6), math.comb(10, 3), math.perm(5, 2), math.factorial(15))
print(math.inf > 10**308, math.isnan(float("nan")), math.copysign(1, -0.0), math.fsum([0.1] * 10), math.prod([2, 3, 7]))
