#!/bin/bash
# Write each line backwards, then all lines in reverse order.
printf 'Zoë\nnaïve\n日本語\n' > lines
rev lines
tac lines
rev lines | tac | head -1
