"""Where things are kept: the ports, and their implementations in memory and in SQL."""
