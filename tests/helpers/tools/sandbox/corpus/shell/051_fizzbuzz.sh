#!/bin/bash
# FizzBuzz up to 20 in bash, and the same in awk; check that both agree.
bash_version() {
  for i in {1..20}; do
    out=""
    (( i % 3 == 0 )) && out+=Fizz
    (( i % 5 == 0 )) && out+=Buzz
    echo "${out:-$i}"
  done
}
awk_version() {
  seq 20 | awk '$1 % 15 == 0 { print "FizzBuzz"; next } $1 % 3 == 0 { print "Fizz"; next } $1 % 5 == 0 { print "Buzz"; next } 1'
}
bash_version | paste -sd' '
if diff <(bash_version) <(awk_version) > /dev/null; then echo "both agree"; fi
bash_version | sort | uniq -c | sort -k1,1nr | head -3 | awk '{print $2 "=" $1}'
