#!/bin/bash
# Parse options with getopts: -v, -n NUMBER, -o FILE, and arguments.
run() {
  local OPTIND=1 opt verbose=0 number=1 output=-
  while getopts ":vn:o:h" opt; do
    case $opt in
      v) verbose=$((verbose + 1)) ;;
      n) number=$OPTARG ;;
      o) output=$OPTARG ;;
      h) echo "usage: run [-v] [-n N] [-o FILE] WORD..."; return 0 ;;
      :) echo "option -$OPTARG needs a value"; return 2 ;;
      \?) echo "unknown option -$OPTARG"; return 2 ;;
    esac
  done
  shift $((OPTIND - 1))
  echo "verbose=$verbose number=$number output=$output rest=[$*] count=$#"
}
run
run -v -n 5 one two
run -vvn3 -oout.txt "three four"
run -h
run -n; echo "status $?"
run -x; echo "status $?"
run -v -- -n 7
