"""The commands on model files: run, inspect, bench, profile, compare, convert.

Enters: words of a command line. Leaves: what is printed, or JSON with `--json`, and an exit code: 0 fine, 1
an error that is told, 2 wrong usage, 3 results that differ. `subject.py` opens whatever a path names,
`feeds.py` makes inputs of files; `verbs.py` and `inspection.py` are the commands. May import everything below
the command line.
"""
