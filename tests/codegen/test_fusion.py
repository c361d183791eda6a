"""Fusion happens, as one kernel each, and the numbers are those of the steps one by one."""

import numpy as np
import pytest
from cases import ALL
from fused import Fused, assert_same, feeds_of
from fusion_case import Case

_built: dict[str, Fused] = {}


def built(case: Case) -> Fused:
    case.register()
    if case.name not in _built:
        _built[case.name] = Fused(case.model(), ort=case.ort and not case.ops, **case.options)
    return _built[case.name]


def cases(kind: str, chosen=ALL) -> list:
    """The chosen cases; those with a known fault of this kind must fail."""
    params = []
    for case in chosen:
        fault = case.faults.get(kind)
        marks = [pytest.mark.xfail(strict=True, reason=fault)] if fault else []
        params.append(pytest.param(case, id=case.name, marks=marks))
    return params


@pytest.mark.parametrize("case", cases("fusion"))
def test_becomes_one_kernel(case):
    fused = built(case)
    fused.assert_generated()
    launched = fused.launches(feeds_of(fused.made, case.dims[-1]) | case.feeds)
    regions = [region["origins"] for region in fused.regions]
    assert launched == case.launches, f"regions: {regions}"


@pytest.mark.parametrize("case", cases("numbers"))
def test_numbers(case):
    """One engine at all sizes."""
    fused = built(case)
    for seed, dims in enumerate(case.dims):
        feeds = feeds_of(fused.made, dims, seed=seed) | case.feeds
        got = fused.compare(feeds)
        if case.numpy is not None:
            wide = case.numpy(**{name: array.astype(np.float64) for name, array in feeds.items()})
            assert_same(got, {name: value.astype(got[name].dtype) for name, value in wide.items()}, "NumPy")


@pytest.mark.parametrize("case", cases("special", [case for case in ALL if case.hard]))
def test_special_values(case):
    """NaN, infinities, zeros of both signs, subnormals, extremes and equal values."""
    fused = built(case)
    for seed, dims in enumerate(case.dims):
        feeds = feeds_of(fused.made, dims, hard=True, seed=seed) | case.feeds
        fused.compare(feeds, own_scale=True, ort=case.ort_hard)
