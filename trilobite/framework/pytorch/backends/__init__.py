"""`tb.backends`: switches of libraries that are not here. They can be set, and change nothing."""

from __future__ import annotations

from typing import Any


class Backend:
    """A library that is not here: `is_available()` is False; settings are kept and mean nothing."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)

    def is_available(self) -> bool:
        return False

    is_built = is_available

    def version(self) -> None:
        return None

    def flags(self, *args: Any, **settings: Any) -> Any:
        """A context in which settings mean nothing."""
        from contextlib import nullcontext

        return nullcontext()


cudnn = Backend(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
cuda = Backend(matmul=Backend(allow_tf32=False, allow_fp16_reduced_precision_reduction=False))
mps, mkl, mkldnn, openmp, xnnpack, opt_einsum = (Backend(enabled=False) for _ in range(6))
for _name in ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp"):
    setattr(cuda, f"{_name}_enabled", lambda: False)
    setattr(cuda, f"enable_{_name}", lambda enabled: None)
cuda.sdp_kernel = cuda.flags  # type: ignore[attr-defined]
