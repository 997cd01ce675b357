#!/bin/bash
# Who is on both lists, who on one of them only, and where do they live?
printf 'Ana\nBjörk\nZoë\n' > first
printf 'Björk\nCéline\nZoë\n' > second
comm -12 first second | paste -sd, -
comm -3 first second | tr -d '\t' | paste -sd, -
diff first second | grep '^[<>]'
printf 'Björk Reykjavík\nZoë Graz\n' > homes
join first homes
