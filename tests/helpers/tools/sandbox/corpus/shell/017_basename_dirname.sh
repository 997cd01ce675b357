#!/bin/bash
# Take paths apart with basename and dirname.
for p in src/main.c docs/guide/intro.md single ./rel/file.tar.gz trailing/slash/; do
  printf '%-22s dir=%-12s base=%-12s\n' "$p" "$(dirname "$p")" "$(basename "$p")"
done
basename src/main.c .c
basename -s .md -a a.md b/c.md d.txt
dirname a/b a b/c/d
mkdir -p project/src && cd project/src && echo "now in $(basename "$PWD"), parent $(basename "$(dirname "$PWD")")"
cd .. && echo "back in ${PWD##*/}"
cd - > /dev/null && echo "again in ${PWD##*/}"
