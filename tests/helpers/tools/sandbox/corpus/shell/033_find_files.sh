#!/bin/bash
# Find files by name, type, size and depth.
mkdir -p src/core/deep src/empty docs
echo "int main;" > src/main.c
echo "int util;" > src/core/util.c
echo "h" > src/core/util.h
head -c 3000 /dev/zero > docs/big.bin
echo "readme" > docs/README.md
touch docs/zero.log
echo "C files:"; find . -name '*.c' | sort
echo "headers or md:"; find . -type f \( -name '*.h' -o -iname 'readme*' \) | sort
echo "bigger than 2 KiB:"; find . -type f -size +2k
echo "empty:"; find . -empty | sort
echo "folders at depth 2:"; find . -mindepth 2 -maxdepth 2 -type d | sort
echo "not C:"; find . -type f ! -name '*.c' | wc -l | tr -d ' '
find . -type f -name '*.c' -exec grep -l util {} \;
find docs -type f -printf '%f %s\n' | sort
find . -name '*.log' -delete; find . -path './docs/*' | sort
find src | sort | sed 's|[^/]*/|  |g'
