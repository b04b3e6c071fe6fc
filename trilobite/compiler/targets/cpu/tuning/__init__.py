"""Search for better schedules, and the memory of what was found.

Lowerings ask `choices.choice` for their parameters; `tuner.tune` fills the database that answers them. This
package imports nothing here, because lowerings import it.

Enters: fusions that have parameters. Leaves: a database of those that were quickest. May import all of
`compiler.targets.cpu`, `compiler` and below. Read `choices.py` first, then `search.py`.
"""
