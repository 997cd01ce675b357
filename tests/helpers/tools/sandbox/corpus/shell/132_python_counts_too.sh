#!/bin/bash
# Have Python count what bash counts, and read the same file.
text="Ça va, Zoë ?"
echo "${#text}"
python3 -c 'import sys; print(len(sys.argv[1]), sys.argv[1].upper())' "$text"
printf 'clé=valeur\nnaïf=oui\n' > settings
python3 - <<'END'
pairs = dict(line.strip().split("=") for line in open("settings"))
print(sorted(pairs), max(map(len, pairs)))
END
echo "fin" | python3 -c 'import sys; print(sys.stdin.read().strip() + " ✓")'
