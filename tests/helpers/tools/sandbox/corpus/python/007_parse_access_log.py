# Parse this web server log with a regular expression: requests per status, bytes per IP, slowest path.
import re
from collections import Counter, defaultdict

LOG = """\
10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "GET /index.html HTTP/1.1" 200 2326 0.012
10.0.0.2 - bob [10/Oct/2023:13:55:40 +0000] "POST /api/login HTTP/1.1" 401 91 0.204
10.0.0.1 - - [10/Oct/2023:13:56:01 +0000] "GET /missing HTTP/1.1" 404 153 0.003
this line is broken
10.0.0.3 - - [10/Oct/2023:13:56:09 +0000] "GET /report HTTP/2" 500 0 1.730
10.0.0.2 - bob [10/Oct/2023:13:57:12 +0000] "POST /api/login HTTP/1.1" 200 310 0.187
"""

PATTERN = re.compile(
    r"""(?P<ip>\d+(?:\.\d+){3})\s-\s(?P<user>\S+)\s\[(?P<when>[^\]]+)\]\s
        "(?P<method>[A-Z]+)\s(?P<path>\S+)\s[^"]+"\s(?P<status>\d{3})\s(?P<size>\d+)\s(?P<secs>[\d.]+)""",
    re.VERBOSE,
)

statuses = Counter()
traffic = defaultdict(int)
slowest = ("", 0.0)
bad = []
for number, line in enumerate(LOG.splitlines(), 1):
    if (m := PATTERN.fullmatch(line)) is None:
        bad.append(number)
        continue
    statuses[m["status"][0] + "xx"] += 1
    traffic[m["ip"]] += int(m["size"])
    if float(m["secs"]) > slowest[1]:
        slowest = (m["path"], float(m["secs"]))

print(dict(sorted(statuses.items())))
for ip in sorted(traffic):
    print(ip, traffic[ip])
print("slowest:", *slowest)
print("unparsable lines:", bad)
print(re.sub(r"(\d+)\.(\d+)\.\d+\.\d+", r"\1.\2.x.x", "from 10.0.0.1 to 192.168.7.9"))
