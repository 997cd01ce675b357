#!/bin/bash
# Classify inputs with case: numbers, words, dates, yes and no; with fall-through.
classify() {
  case $1 in
    '') echo "empty" ;;
    *[!0-9]*)
      case $1 in
        [0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]) echo "date" ;;
        -[0-9]* | +[0-9]*) echo "signed" ;;
        *.*.*) echo "dotted" ;;
        *.*) echo "decimal or file" ;;
        [[:upper:]]*) echo "capitalised" ;;
        *\ *) echo "several words" ;;
        *) echo "word" ;;
      esac ;;
    0*) echo "number with leading zero" ;;
    *) echo "number" ;;
  esac
}
for x in 42 007 -5 3.14 1.2.3 2024-01-31 hello Hello "two words" "" '*'; do
  printf '%-12s %s\n' "[$x]" "$(classify "$x")"
done
shopt -s nocasematch
for a in YES n Maybe; do case $a in y | yes) echo "$a: yes" ;; n | no) echo "$a: no" ;; *) echo "$a: what?" ;; esac; done
shopt -u nocasematch
case abc in a*) echo "one" ;& zzz) echo "two" ;; b) echo "three" ;; esac
case 5 in [1-5]) echo "low" ;;& [5-9]) echo "high" ;;& *) echo "any" ;; esac
