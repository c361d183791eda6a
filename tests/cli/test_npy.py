"""Types that NumPy lacks travel in .npy files as wider ones."""

import numpy as np
import pytest
from onnx import TensorProto
from test_cli import failed, ok

STAND_INS = [
    (TensorProto.BFLOAT16, np.float32, [[1.5, -2.0, 0.00390625]]),
    (TensorProto.FLOAT8E4M3FN, np.float32, [[1.5, -448, 0.015625]]),
    (TensorProto.FLOAT8E8M0, np.float32, [[1, 0.25, 64]]),
    (TensorProto.FLOAT4E2M1, np.float32, [[1.5, -6, 0.5]]),
    (TensorProto.INT4, np.int8, [[7, -8, 3]]),
    (TensorProto.UINT4, np.uint8, [[7, 15, 3]]),
    (TensorProto.INT2, np.int8, [[1, -2, -1]]),
    (TensorProto.UINT2, np.uint8, [[1, 2, 3]]),
]


@pytest.mark.parametrize(("onnx_type", "numpy_type", "values"), STAND_INS)
def test_types_that_numpy_lacks_travel_as_wider_ones(cli, identity, tmp_path, onnx_type, numpy_type, values):
    identity(onnx_type)
    x = np.array(values, dtype=numpy_type)
    np.save(tmp_path / "x.npy", x)
    ok(cli("run", "identity.onnx", "-i", "x=x.npy", "-o", "out", "--no-tune"))
    y = np.load(tmp_path / "out" / "y.npy")
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_numbers_outside_a_packed_type(cli, identity, tmp_path):
    identity(TensorProto.INT2)
    np.save(tmp_path / "x.npy", np.array([[1, 2, 0]], dtype=np.int8))
    failed(cli("run", "identity.onnx", "-i", "x=x.npy", "--no-tune"), 804, "ARGUMENT", "int2")
