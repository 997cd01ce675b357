#!/bin/sh
# Stop at the first failing step with set -e, and pass its exit status on.
set -e
step() { echo "== $1"; }
step "prepare"
mkdir build
step "compile"
echo "int x;" > build/x.c
test -s build/x.c
step "check"
grep -q "int" build/x.c && echo "types found"
step "install"
this-tool-is-not-installed --prefix build 2> /dev/null
step "done"
