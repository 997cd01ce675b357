#!/bin/bash
# Cut substrings out of a date and an identifier, change case, and pad numbers.
stamp="20240315T143059"
echo "${stamp:0:4}-${stamp:4:2}-${stamp:6:2} ${stamp:9:2}:${stamp:11:2}:${stamp: -2}"
word="hello World"
echo "${word^} ${word^^} ${word,,} ${word:6} ${word:(-5):3}"
for n in 7 42 1234; do
  printf '%05d ' "$n"
  padded="0000$n"
  echo "${padded: -4}"
done
reversed=""
for ((i = ${#word} - 1; i >= 0; i--)); do reversed+="${word:i:1}"; done
echo "$reversed"
count=0
for ((i = 0; i < ${#word}; i++)); do
  [[ ${word:i:1} == [aeiou] ]] && ((count++))
done
echo "vowels: $count"
text="aXbXc"
while [[ $text == *X* ]]; do echo "part: ${text%%X*}"; text=${text#*X}; done
echo "rest: $text"
