"""The CPU's own primitives: convolutions and windows with channels last, weights in panels and at points.

Only this target's passes make them. They stand in the one table of primitives, with meaning and types like
all others, so that graphs of them are printed, verified and interpreted; a family is imported when one of its
names is asked for. Their meaning is stated by the plain primitives of `ir`.

Enters: values and attributes. Leaves: types and numbers. May import `ir` and `base`. Read `conv_last.py`
first.
"""

from trilobite.ir.primitives import table

FAMILIES = {
    "conv_integer": "conv_integer_panels conv_integer",
    "conv_integer_tiles": "conv_integer_points conv_integer_tiles",
    "conv_last": "conv_panels conv_last conv_last_input_grad conv_last_weight_grad",
    "conv_planes": "conv_planes",
    "conv_winograd": "conv_winograd conv_winograd_weight_grad",
    "lookup": "lookup",
    "packing": "gemm_pack dot_packed nibble_pack nibble_unpack dot_quantised",
    "rounding": "requantise_single quantise_product",
    "window_last": "window_last_reduce window_last_argmax window_last_gather window_last_scatter "
    "window_last_max_grad window_last_spread",
}
"""The module of each family, and the primitives that it defines."""

for _family, _names in FAMILIES.items():
    table.declare(f"{__name__}.{_family}", _names.split())

__all__ = ["FAMILIES", "table"]
