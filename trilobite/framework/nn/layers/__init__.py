"""The layers: modules with parameters, whose `forward` calls `tb.nn.functional`.

Enters: tensors. Leaves: tensors. May import `framework`, `ir` and `base`. Read `base.py` first, then
`linear.py`.
"""
