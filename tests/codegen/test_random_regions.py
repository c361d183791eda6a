"""Random graphs: fused, level 0, without regions and ONNX Runtime agree, and no kernel is dropped."""

import pytest
from fused import Fused, feeds_of
from random_moves import MoveGraph
from random_regions import RandomGraph
from random_views import ViewGraph

GRAPHS = 150
VIEW_GRAPHS = 60
MOVE_GRAPHS = 60


def built(seed: int, kind: type[RandomGraph] = RandomGraph, **options) -> tuple[RandomGraph, Fused]:
    graph = kind(seed)
    return graph, Fused(graph.model(), ranges=graph.ranges(), **options)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_region(seed):
    agrees(*built(seed))


@pytest.mark.parametrize("seed", range(VIEW_GRAPHS))
def test_random_views(seed):
    agrees(*built(seed, ViewGraph, threads=1 + seed % 2), own_scale=True)


@pytest.mark.parametrize("seed", range(MOVE_GRAPHS))
def test_random_moves(seed):
    """ONNX Runtime has no Resize along all axes."""
    graph, fused = built(seed, MoveGraph, threads=1 + seed % 2)
    fused.with_ort = "Resize" not in graph.ops
    agrees(graph, fused, own_scale=True)


def agrees(graph: RandomGraph, fused: Fused, own_scale: bool = False) -> None:
    for k, dims in enumerate(graph.dims(3)):
        fused.compare(feeds_of(fused.made, dims, seed=k), own_scale)
    assert fused.dropped() == []
