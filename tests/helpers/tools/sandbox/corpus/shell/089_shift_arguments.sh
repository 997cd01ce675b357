#!/bin/bash
# Handle long options by shifting arguments, with defaults and checks.
parse() {
  local name=default count=1 force=no files=()
  while [ $# -gt 0 ]; do
    case "$1" in
      --name) name="${2:?--name needs a value}"; shift 2 ;;
      --name=*) name="${1#*=}"; shift ;;
      -c | --count) count=$2; shift 2 ;;
      -f | --force) force=yes; shift ;;
      --) shift; files+=("$@"); break ;;
      -*) echo "unknown: $1"; return 1 ;;
      *) files+=("$1"); shift ;;
    esac
  done
  [[ $count =~ ^[0-9]+$ ]] || { echo "count is no number: $count"; return 1; }
  echo "name=$name count=$count force=$force files=${#files[@]}: ${files[*]}"
}
parse
parse --name Ann -c 3 a.txt --force "b c.txt"
parse --name=Bob -- -f x
parse --count many || echo "status $?"
parse --what || echo "status $?"
set -- a b c d e
echo "$# $1 $3 ${@: -2}"; shift 2; echo "$# $1 ${*:2:1}"
for arg; do printf '<%s>' "$arg"; done; echo
