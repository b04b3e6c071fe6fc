"""What a person holds to look at programs and machines: commands, checkers, profiles.

Enters: a device, programs, runs. Leaves: findings, tables, pages. May import all of the `processor` but
`queues`, and `native`. Read `session.py` first for the debugger, `checks.py` for checkers, `profile.py` for
time.
"""
