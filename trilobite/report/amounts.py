"""Amounts as people read them: three or four digits and the prefix that fits."""

from __future__ import annotations

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def amount(value: float, unit: str) -> str:
    """`12.19 ms` of 0.01219 s, `167.3 MB` of 167302380 B; counts below a thousand stay whole."""
    if not value:
        return f"0 {unit}"
    is_whole = float(value).is_integer() and abs(value) < 1e3
    digits = value if is_whole else float(f"{value:.4g}")  # rounded first: 999.97 is 1 of the next
    size, prefix = next(((s, p) for s, p in PREFIXES if abs(digits) >= s), PREFIXES[-1])
    scaled = digits / size
    places = 0 if is_whole else 3 - len(str(int(abs(scaled))))
    return f"{scaled:.{max(places, 0) + (not is_whole)}f} {prefix}{unit}"
