"""The one entry and the interpreters behind it: evaluate, record, tape, forward, batch; and the same on
regions.
"""
