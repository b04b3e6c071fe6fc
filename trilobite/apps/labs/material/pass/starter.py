"""Lab pass: a pass for the compiler. Fill in what raises NotImplementedError.

    trilobite lab pass --check this_file.py

A Graph has inputs, equations in order, outputs. An Equation has a primitive (with a name), inputs, attributes
and outputs, all values (Var). Graphs and equations are never changed: make new ones. print(graph) shows one.
"""

from trilobite.ir.graph import Equation, Graph


def clean(graph):
    """The same graph without what is not needed:

    - transpose(transpose(x)) is one transpose: the axes of the first, in the order of the second's;
    - a transpose with axes (0, 1, 2) is its operand;
    - neg(neg(x)) is x;
    - an equation whose results nobody reads is left out. Inputs and outputs stay as they are.
    """
    raise NotImplementedError
