#!/bin/bash
# Look at bytes: od and hexadecimal, and build binary data with printf.
printf 'AB\tC\n\0\377' > data.bin
od -c data.bin
od -An -tx1 data.bin
od -An -tu1 -w4 data.bin
od -A d -t x1 -j 2 -N 3 data.bin
hex=$(od -An -v -tx1 data.bin | tr -d ' \n'); echo "$hex"
for ((i = 0; i < ${#hex}; i += 2)); do printf '%d ' "0x${hex:i:2}"; done; echo
printf "$(echo "$hex" | sed 's/../\\x&/g')" | cmp - data.bin && echo "rebuilt"
printf '%s' "Hi" | od -An -to1 | tr -s ' '
head -c 4 /dev/zero | od -An -tx1
printf '\x89PNG' | head -c 4 | od -An -c
tr -d '\0' < data.bin | wc -c | tr -d ' '
