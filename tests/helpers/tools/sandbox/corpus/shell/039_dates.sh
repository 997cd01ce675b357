#!/bin/bash
# Format given points in time, in UTC.
export TZ=UTC
date -d @0
date -d @1700000000 '+%Y-%m-%d %H:%M:%S'
date -u -d '2024-02-29 12:34:56' +%s
date -d '2024-02-29 + 1 year' +%F
date -d '2024-01-31 +1 month' +%F
date -d '2024-03-01 -1 day' '+%A %d %B %Y'
date -d '2024-12-30' '+%G-W%V-%u %j %y'
date -d '2024-03-10 08:05:09' '+%I:%M %p %-H:%-M %e|%T|%R|%D'
date -d 2024-06-15T10:00:00Z --iso-8601=seconds
for d in 2024-01-01 2023-02-28; do echo "$d is a $(date -d "$d" +%a)"; done
a=$(date -d 2024-03-01 +%s); b=$(date -d 2024-12-25 +%s)
echo "$(( (b - a) / 86400 )) days"
date -d 'not a date' 2>/dev/null || echo "invalid"
