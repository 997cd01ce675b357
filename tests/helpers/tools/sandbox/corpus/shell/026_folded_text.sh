#!/bin/bash
# Wrap a long line at 30 characters, at spaces, and show the longest line.
text="The Unix philosophy is to write programs that do one thing and do it well, and to write programs to work together."
echo "$text" | fold -w 30
echo "---"
echo "$text" | fold -s -w 30 | sed 's/ *$//' | awk '{ print length($0) ": " $0 }'
echo "---"
echo "$text" | fold -s -w 30 | awk 'length > max { max = length; line = $0 } END { print max, line }'
echo "$text" | tr ' ' '\n' | awk '{ print length, $0 }' | sort -k1,1nr -k2 | head -3
printf '%s\n' "$text" | fmt -w 40 | wc -l
echo "abcdefghij" | fold -w 4 | paste -sd- -
