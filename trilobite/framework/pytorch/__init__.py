"""Rooms that PyTorch has and this package has not: the same things under its names.

`import trilobite.utils.data`, `tb.cuda.is_available()`, `tb.autograd.grad(...)`: model code written for
PyTorch asks for them. Nothing is computed here: every name forwards to the room that does it, or says
truthfully that there is no such device. `namespace.ROOMS` gives the rooms their names.

Enters: calls as PyTorch's users write them. Leaves: what the room behind the name gives. May import all of
`framework`, and `ir`, `native`, `base`. Read `settings.py` first.
"""
