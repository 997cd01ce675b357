#!/bin/bash
# Send output and errors to files, join them, and drop them.
say() { echo "to stdout $1"; echo "to stderr $1" >&2; }
say 1 > out.txt 2> err.txt
say 2 >> out.txt 2>> err.txt
say 3 > both.txt 2>&1
say 4 &> all.txt
say 5 2> /dev/null
say 6 2>&1 > /dev/null | sed 's/^/piped: /'
for f in out err both all; do echo "== $f"; cat "$f.txt"; done
exec 3> log.txt
echo "first" >&3
echo "second" >&3
exec 3>&-
wc -l < log.txt | tr -d ' '
{ echo "grouped"; say 7; } > group.txt 2>&1
tail -n 1 group.txt
: > out.txt
[ -s out.txt ] || echo "out.txt is empty"
read -r line < log.txt; echo "read: $line"
