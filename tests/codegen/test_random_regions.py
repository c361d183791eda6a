"""Random graphs: fused, level 0, without regions and ONNX Runtime agree, and no kernel is dropped."""

import pytest
from fused import Fused, feeds_of
from fusion_case import OVERFLOW
from random_regions import RandomGraph
from random_views import ViewGraph

GRAPHS = 150
VIEW_GRAPHS = 60
# Regions that hold one of these may be dropped by a known fault.
MAY_BE_DROPPED = {"Softmax", "LogSoftmax", "ReduceMin", "ReduceMax", "LayerNormalization", "Sigmoid"}


def built(seed: int, kind: type[RandomGraph] = RandomGraph, **options) -> tuple[RandomGraph, Fused]:
    graph = kind(seed)
    return graph, Fused(graph.model(), ranges=graph.ranges(), **options)


def dropped_ops(fused: Fused) -> list[set[str]]:
    """The ops of each region whose kernel the tuner dropped."""
    names = {line.split(" ")[0] for line in fused.dropped()}
    regions = [region for region in fused.regions if region["name"] in names]
    return [{origin.rsplit("_", 1)[0] for origin in region["origins"]} for region in regions]


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_region(seed):
    agrees(*built(seed))


@pytest.mark.parametrize("seed", range(VIEW_GRAPHS))
def test_random_views(seed):
    agrees(*built(seed, ViewGraph, threads=1 + seed % 2), own_scale=True)


def agrees(graph: RandomGraph, fused: Fused, own_scale: bool = False) -> None:
    for k, dims in enumerate(graph.dims(3)):
        fused.compare(feeds_of(fused.made, dims, seed=k), own_scale)
    wrong = [ops for ops in dropped_ops(fused) if not ops & MAY_BE_DROPPED]
    assert wrong == []


@pytest.mark.parametrize(
    ("seed", "fault"),
    [
        pytest.param(seed, fault, marks=pytest.mark.xfail(strict=True, reason=fault))
        for seed, fault in ((82, OVERFLOW),)
    ],
)
def test_no_kernel_is_dropped(seed, fault):
    assert built(seed)[1].dropped() == []
