#!/bin/bash
# Leave out, or mark, everything that is not plain ASCII.
printf 'naïve café\n10 € or £9\nplain\n' | LC_ALL=C tr -cd '\n -~'
printf 'naïve café\n' | LC_ALL=C sed 's/[^ -~]/?/g'
printf 'naïve café\n' | sed 's/[^[:print:]]/?/g'
printf 'naïve café\n' | sed 's/[ïé]/?/g'
