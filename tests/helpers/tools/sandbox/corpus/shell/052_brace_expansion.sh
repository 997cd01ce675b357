#!/bin/bash
# Show brace expansion and globs: sequences, steps, combinations, files.
echo {1..5} {10..1..3} {a..f} {01..03}
echo file_{a,b}{1,2}.txt
echo pre{fix,view,}s
mkdir -p app/{src,tests/{unit,e2e},docs}
find app -type d | sort
touch app/src/{main,util}.py app/src/main.c app/docs/.hidden
echo app/src/*.py
echo app/src/????.*
echo app/src/[mu]*.c
echo app/*/
echo app/src/*.java
shopt -s nullglob
echo "none: [$(echo app/src/*.java)]"
shopt -s extglob globstar
echo app/src/!(*.py)
printf '%s\n' app/**/*.py
ls -A app/docs
cp app/src/main.py{,.bak} && ls app/src | paste -sd' '
set -f; echo *.txt; set +f
