#!/bin/bash
# Print a table with printf: aligned text, numbers with decimals, hexadecimal, percentages.
row='%-12s|%8s|%10s\n'
printf "$row" Product Units Price
printf '%s\n' '------------+--------+----------'
printf '%-12s|%8d|%10.2f\n' Widget 12 4.5 Gadget 3 19.99 "Long name item" 1000 0.375
printf '%s %s %s\n' a b c d e
printf '%05.1f|%+d|% d|%x|%X|%#o|%e|%g\n' 3.14159 5 7 255 255 8 12345.678 0.0001
printf '%5s|%-5s|%.2s|%*d\n' ab ab abcdef 6 42
printf '%d%%\n' 42
printf '%b\n' 'tab\there'
printf '[%s]' one "two three" ''; echo
printf -v padded '%08d' 1234; echo "$padded"
printf '%c%c\n' hello world
printf '\x41\102\n'
printf '%d %d\n' "'A" 0x1f
printf '=%.0s' {1..20}; echo
printf '%s\n' "$(printf '%s' 'no newline')"
