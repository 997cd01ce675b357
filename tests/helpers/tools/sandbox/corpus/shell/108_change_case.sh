#!/bin/bash
# Write these headings in capitals, in small letters, and with a capital first.
for heading in "crème brûlée" "ÉTÉ À LA MER" "señor ÑANDÚ" "привет МИР"; do
  lower=${heading,,}
  echo "${heading^^} | $lower | ${lower^}"
done
