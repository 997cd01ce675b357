#!/bin/bash
# Sort these people by their city, and within it the oldest first.
printf '%s\n' 'Zoë|34|Århus' 'Łukasz|41|Łódź' 'Ana|29|Århus' 'Jörg|52|Köln' > people
sort -t'|' -k3,3 -k2,2nr people
cut -d'|' -f3 people | sort | uniq | wc -l
