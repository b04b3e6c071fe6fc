"""Automatic differentiation by hand: every operation leaves behind how to send a gradient back."""

import numpy as np


class Variable:
    def __init__(self, value, parents=()):
        self.value = np.asarray(value, np.float64)
        self.grad = np.zeros_like(self.value)
        self.parents = parents  # pairs: a variable, and a function from our gradient to its share

    def __add__(self, other):
        other = lift(other)
        return Variable(self.value + other.value, ((self, lambda g: g), (other, lambda g: g)))

    def __mul__(self, other):
        other = lift(other)
        parents = ((self, lambda g: g * other.value), (other, lambda g: g * self.value))
        return Variable(self.value * other.value, parents)

    def __truediv__(self, other):
        other = lift(other)
        value = self.value / other.value
        return Variable(
            value, ((self, lambda g: g / other.value), (other, lambda g: -g * value / other.value))
        )

    def __matmul__(self, other):
        parents = ((self, lambda g: g @ other.value.T), (other, lambda g: self.value.T @ g))
        return Variable(self.value @ other.value, parents)

    def __neg__(self):
        return Variable(-self.value, ((self, lambda g: -g),))

    def __sub__(self, other):
        return self + -lift(other)

    @property
    def T(self):
        return Variable(self.value.T, ((self, lambda g: g.T),))

    def exp(self):
        value = np.exp(self.value)
        return Variable(value, ((self, lambda g: g * value),))

    def log(self):
        return Variable(np.log(self.value), ((self, lambda g: g / self.value),))

    def relu(self):
        return Variable(np.maximum(self.value, 0), ((self, lambda g: g * (self.value > 0)),))

    def sum(self):
        return Variable(self.value.sum(), ((self, lambda g: np.broadcast_to(g, self.value.shape)),))

    def backward(self):
        self.grad = np.ones_like(self.value)
        for node in reversed(in_order(self)):
            for parent, share in node.parents:
                parent.grad = parent.grad + shrink(share(node.grad), parent.value.shape)


def lift(value):
    return value if isinstance(value, Variable) else Variable(value)


def shrink(gradient, shape):
    """The sum of a gradient over the axes along which a value of this shape was spread."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    spread = tuple(axis for axis, n in enumerate(shape) if n == 1 and gradient.shape[axis] != 1)
    return gradient.sum(axis=spread, keepdims=True) if spread else gradient


def in_order(last):
    """Every node behind `last`, operands before results; a stack of our own instead of Python's."""
    order, seen, stack = [], set(), [(last, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent, _ in node.parents)
    return order
