"""Lab autodiff: a tape of your own. Fill in what raises NotImplementedError, and add the operations.

    trilobite lab autodiff --check this_file.py

Asked for: + - * / with variables and numbers, -x, @, .T, exp(), log(), relu(), sum(), backward(), and
after it .grad of every variable that was made by hand.
"""

import numpy as np


class Variable:
    def __init__(self, value, parents=()):
        self.value = np.asarray(value, np.float64)
        self.grad = np.zeros_like(self.value)
        self.parents = parents  # pairs: a variable, and a function from our gradient to its share

    def __add__(self, other):
        other = other if isinstance(other, Variable) else Variable(other)
        return Variable(self.value + other.value, ((self, lambda g: g), (other, lambda g: g)))

    def sum(self):
        return Variable(self.value.sum(), ((self, lambda g: np.broadcast_to(g, self.value.shape)),))

    def backward(self):
        """Puts into .grad of every variable behind this one the derivative of this one."""
        raise NotImplementedError
