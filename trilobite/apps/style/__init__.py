"""Image style transfer, the driving example: pretrained networks, optimisation, training of a network.

Enters: pictures. Leaves: pictures. `command.py` is what `trilobite style` calls; read it first. Three ways:
`real_time.py` (pretrained networks, one pass), `optimise.py` (the picture itself is trained), `training.py`
(a transform network of one's own). May import everything below the applications.
"""
