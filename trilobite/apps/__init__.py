"""Applications: what the house is for, each runnable by name.

Enters: the words of a command, from `cli`. Leaves: pictures, pages, marks of a lab. May import everything but
`cli`. `demo.py` first: it shows each of them.
"""
