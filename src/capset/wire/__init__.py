"""The shapes that leave the process: one set, for the command line and every other door (DESIGN §4, rule 10)."""
