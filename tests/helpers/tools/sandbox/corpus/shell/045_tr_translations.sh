#!/bin/bash
# Use tr for ROT13, upper case, squeezing blanks, deleting and complementing.
rot13() { tr 'A-Za-z' 'N-ZA-Mn-za-m'; }
echo "Hello, World" | rot13
echo "Hello, World" | rot13 | rot13
echo "shout" | tr '[:lower:]' '[:upper:]'
echo "too    many   blanks" | tr -s ' '
echo "phone: +1 (555) 010-99" | tr -cd '0-9'; echo
echo "a,b;c d" | tr ',; ' '\n'
echo "aabbccdd" | tr -s 'a-c'
echo "hello" | tr -d 'l'
printf 'dos\r\nlines\r\n' | tr -d '\r' | od -c | head -1
echo "banana" | tr 'abn' 'x-z'
echo "12:34" | tr ':' '-' | tr '0-9' '*'
echo "keep only letters 123!" | tr -cs '[:alpha:]' '_'; echo
echo "acgtACGT" | tr 'acgtACGT' 'tgcaTGCA' | rev
