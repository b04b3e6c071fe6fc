"""Trilobite beside its peers: the same work, in one run, on one machine. `make bench` runs it."""
