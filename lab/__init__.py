"""What measures, attacks and compares capset. It is not shipped, and its types are not strict."""
