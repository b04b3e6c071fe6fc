"""Search for better schedules, and the memory of what was found.

Lowerings ask `choices.choice` for their parameters; `tuner.tune` fills the database that answers them. This
package imports nothing here, because lowerings import it.
"""
