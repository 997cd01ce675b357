#!/bin/bash
# Use arrays as a stack and as a queue; check brackets with the stack.
stack=()
push() { stack+=("$1"); }
pop() { top=${stack[-1]}; unset 'stack[-1]'; }
push a; push b; push "c d"
pop; echo "popped: $top, left: ${#stack[@]}"
queue=(1 2 3)
queue+=(4)
head=${queue[0]}; queue=("${queue[@]:1}")
echo "served $head, waiting: ${queue[*]}"

balanced() {
  local s=() ch i
  for ((i = 0; i < ${#1}; i++)); do
    ch=${1:i:1}
    case $ch in
      '(' | '[' | '{') s+=("$ch") ;;
      ')' | ']' | '}')
        (( ${#s[@]} )) || return 1
        case "${s[-1]}$ch" in '()' | '[]' | '{}') unset 's[-1]' ;; *) return 1 ;; esac ;;
    esac
  done
  (( ${#s[@]} == 0 ))
}
for t in '(a[b]{c})' '(]' '((' '' 'x)'; do balanced "$t" && echo "ok  '$t'" || echo "bad '$t'"; done
rpn() { local s=() t; for t in $1; do case $t in [-+/x]) b=${s[-1]} a=${s[-2]}; unset 's[-1]' 's[-1]'; s+=($((a ${t/x/*} b))) ;; *) s+=("$t") ;; esac; done; echo "${s[0]}"; }
set -f; rpn "3 4 + 2 x 7 /"; rpn "10 2 8 x + 3 -"
