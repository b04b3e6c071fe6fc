"""Wrong uses and hostile programs: what must be refused, in words, and what must hold all the same."""
