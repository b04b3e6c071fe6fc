"""The primitives, one module a family. The table knows all names and imports a family when it is first
needed. A target's own primitives stand with the target and enter the same table.

Enters: values, attributes, types. Leaves: types, numbers, rules of derivatives and batching. May import `ir`
and `base`. Read `elementwise.py` first, then `dot.py`.
"""

from trilobite.ir.primitive import table

FAMILIES = {
    "bits": "not and or xor shift_left shift_right popcount clz bitcast",
    "call": "call",
    "cast": "cast",
    "cluster": "cluster_all_reduce cluster_share cluster_all_gather cluster_part cluster_reduce_scatter "
    "cluster_all_to_all cluster_permute cluster_broadcast",
    "cluster_messages": "cluster_index cluster_send cluster_receive cluster_barrier",
    "comparison": "eq ne lt le gt ge is_finite is_nan is_inf signbit select maximum minimum",
    "complex": "conj real imag complex",
    "cond": "cond",
    "conv": "conv conv_input_grad conv_weight_grad",
    "creation": "constant full iota stop_gradient barrier",
    "cumulative": "cumulative",
    "dot": "dot",
    "dynamic": "dynamic_slice dynamic_update_slice",
    "effects": "print callback custom_call",
    "elementwise": "add sub mul div neg floor_div rem pow sqrt rsqrt hypot abs sign copysign nextafter floor "
    "ceil trunc round",
    "exponential": "exp exp2 expm1 log log2 log10 log1p logaddexp",
    "fft": "fft rfft irfft",
    "fusion": "fusion",
    "gather": "gather gather_nd take_along",
    "linalg_lu": "lu",
    "linalg_qr": "qr",
    "linalg_spectral": "eigh eigvalsh eig eigvals",
    "linalg_svd": "svd svdvals pinv",
    "linalg_triangular": "triangular_solve cholesky",
    "quantise": "quantise requantise dequantise",
    "random": "random_bits",
    "reduction": "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or argmax argmin",
    "scan": "scan",
    "scatter": "scatter scatter_along",
    "scatter_reduce": "scatter_reduce scatter_reduce_along",
    "shape": "broadcast reshape transpose slice pad update_slice concatenate reverse",
    "sorting": "sort top_k",
    "special": "erf erfc erf_inv lgamma digamma polygamma",
    "trigonometric": "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2",
    "while_loop": "while",
    "window": "window_reduce window_argmax window_gather window_scatter",
}
"""The module of each family, and the primitives that it defines."""

for _family, _names in FAMILIES.items():
    table.declare(f"{__name__}.{_family}", _names.split())

__all__ = ["FAMILIES", "table"]
