#!/bin/bash
# How many requests were there per status code, and which paths gave errors?
cat > access.log <<'EOF'
10.0.0.1 - - [01/Jan/2024:00:00:01 +0000] "GET / HTTP/1.1" 200 512
10.0.0.2 - - [01/Jan/2024:00:00:02 +0000] "GET /missing HTTP/1.1" 404 99
10.0.0.1 - - [01/Jan/2024:00:01:05 +0000] "POST /login HTTP/1.1" 302 0
10.0.0.3 - - [01/Jan/2024:00:01:09 +0000] "GET /api HTTP/1.1" 500 77
10.0.0.2 - - [01/Jan/2024:00:02:00 +0000] "GET /missing HTTP/1.1" 404 99
10.0.0.1 - - [01/Jan/2024:00:03:00 +0000] "GET /style.css HTTP/1.1" 200 2048
EOF
echo "== by status"
awk '{print $9}' access.log | sort | uniq -c | sort -rn -k1,1 -k2,2
echo "== errors"
grep -E '" (4|5)[0-9]{2} ' access.log | sed -E 's/.*"[A-Z]+ ([^ ]+) [^"]*" ([0-9]+).*/\2 \1/' | sort | uniq -c
echo "== bytes per client"
awk '{bytes[$1] += $10} END {for (ip in bytes) print ip, bytes[ip]}' access.log | sort -k2 -nr
echo "== requests per minute"
cut -d'[' -f2 access.log | cut -d: -f2,3 | uniq -c
