"""Parts of networks that keep their name in a graph: a `call` with a body in primitives, some with a vjp.

Enters: values. Leaves: values; a target claims such a call whole or inlines it. May import `framework` and
`ir`, no modules. Read `activation.py` first, then `attention.py`.
"""
