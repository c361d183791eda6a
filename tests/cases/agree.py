"""How near is near enough: exact for integers and where a case asks for it, else c * eps(T) * sqrt(K) of the scale."""

import ml_dtypes
import numpy as np

FACTOR = 4.0


def eps(dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def is_integer(dtype) -> bool:
    return np.dtype(dtype).kind in "iub" or "int" in np.dtype(dtype).name  # int4 is of another package


def fault(name: str, want, got, dtype, terms: int, scale: float | None = None) -> str | None:
    """Why `got` is not `want`, in one line, or None."""
    got = np.asarray(got)
    if got.dtype != dtype:
        return f"{name}: dtype {got.dtype}, expected {dtype}"
    if got.shape != want.shape:
        return f"{name}: shape {list(got.shape)}, expected {list(want.shape)}"
    if not want.size:
        return None
    if is_integer(dtype):
        bad = got != want.astype(dtype)
        allowed = 0.0
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        finite = b[np.isfinite(b)]
        size = max(scale or 0.0, float(np.abs(finite).max()) if finite.size else 0.0)
        allowed = FACTOR * eps(dtype) * np.sqrt(terms) * size
        with np.errstate(all="ignore"):
            bad = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    count = f"{int(bad.sum())} of {bad.size} off by more than {allowed:.2g}"
    return f"{name}: {count}, first at {list(at)}: {got[at]}, expected {want[at]}"


def faults(case, got: dict) -> str | None:
    """The first output of a case that is not as expected."""
    for name, want in case.wants.items():
        if name not in got:
            return f"{name}: missing"
        reason = fault(name, want, got[name], case.types[name], case.terms, case.scale)
        if reason:
            return reason
    return None


def mostly_zero(array) -> bool:
    """Over 30% zeros: the test is mistrusted, a wrong kernel could pass it."""
    array = np.asarray(array)
    return array.dtype != np.bool_ and array.size >= 4 and float((array == 0).mean()) > 0.3
