#!/bin/bash
# Give each title a capital first and its last word in capitals; then take accents off.
printf 'été indien\nça va\nñoño bueno\n' | sed -E 's/^./\u&/; s/[^ ]+$/\U&/'
echo "ÀÉÎÕÜ" | sed 's/.*/\L&/'
echo "le château de l'évêque" | sed 'y/âéèêî/aeeei/'
