"""Adds to BAD_MODELS those whose graph is whole but one node or operator set is wrong."""

import numpy as np
from bad_models import BAD_MODELS, CULPRIT, INT64, bad, good, model, node, one, value
from onnx import helper

__all__ = ["BAD_MODELS"]


# Arity, types, shapes


@bad(205, CULPRIT)
def too_many_inputs():
    return one("Relu", [2], [2])


@bad(205, CULPRIT)
def too_few_inputs():
    return one("Add", [2])


@bad(205, CULPRIT)
def required_input_left_out():
    return model([node("Add", ["x", ""], ["y"])], [value("x", [2])], [value("y", [2])])


@bad(205, CULPRIT)
def too_many_outputs():
    return model([node("Relu", ["x"], ["y", "z"])], [value("x", [2])], [value("y", [2]), value("z", [2])])


@bad(206, CULPRIT)
def operands_of_two_types():
    return model([node("Add", ["x", "k"], ["y"])], [value("x", [2]), value("k", [2], INT64)], [value("y", [2])])


@bad(206, CULPRIT)
def logic_on_floats():
    return one("And", [2], [2])


@bad(206, CULPRIT)
def convolution_of_integers():
    return one("Conv", [1, 3, 8, 8], [4, 3, 3, 3], dtype=INT64)


@bad(206)
def element_type_that_does_not_exist():
    broken = good()
    broken.graph.initializer[0].data_type = 77
    return broken


@bad(203, CULPRIT)
def matmul_inner_dims_differ():
    return one("MatMul", [2, 3], [4, 5])


@bad(203, CULPRIT)
def add_does_not_broadcast():
    return one("Add", [2, 3], [4])


@bad(203, CULPRIT)
def concat_other_dims_differ():
    return one("Concat", [2, 3], [2, 4], axis=0)


@bad(203, CULPRIT)
def reshape_to_another_count():
    return one("Reshape", [2, 3], constants={"s": np.array([4, 2], np.int64)})


@bad(203, CULPRIT)
def convolution_channels_differ():
    return one("Conv", [1, 3, 8, 8], [4, 5, 3, 3])


@bad(203, CULPRIT)
def gemm_bias_does_not_fit():
    return one("Gemm", [2, 3], [3, 4], [5])


@bad(207)
def initializer_dims_overflow():
    broken = good()
    broken.graph.initializer[0].dims[:] = [1 << 40, 1 << 40]
    return broken


@bad(207)
def input_dims_overflow():
    return one("Relu", [1 << 40, 1 << 40])


@bad(207, CULPRIT)
def constant_of_shape_overflows():
    return one("ConstantOfShape", constants={"s": np.array([1 << 40, 1 << 40], np.int64)})


# Operators, opsets, attributes


@bad(208, "Frobnicate", "Quux", "com.acme")
def all_missing_operators_at_once():
    nodes = [
        node("Frobnicate", ["x"], ["p"], "first", domain="com.acme"),
        node("Relu", ["p"], ["q"], "second"),
        node("Quux", ["q"], ["y"], "third"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return model(nodes, [value("x", [2])], [value("y", [2])], opsets=opsets)


@bad(208, "Gelu")
def operator_newer_than_the_opset():
    return one("Gelu", [2], opset=17)


@bad(211, "0")
def opset_too_old():
    return one("Relu", [2], opset=0)


@bad(211, "99")
def opset_too_new():
    return one("Relu", [2], opset=99)


@bad(211)
def ir_version_too_new():
    broken = good()
    broken.ir_version = 1_000_000
    return broken


@bad(211)
def no_opset():
    return model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])], opsets=[])


@bad(209, CULPRIT)
def transpose_same_axis_twice():
    return one("Transpose", [2, 3], perm=[0, 0])


@bad(209, CULPRIT)
def transpose_axis_counted_from_the_end():
    return one("Transpose", [2, 3], perm=[0, -1])


@bad(209, CULPRIT)
def transpose_axis_counted_from_the_end_of_unknown_rank():
    return one("Transpose", None, perm=[-1, 0])


@bad(209, CULPRIT)
def transposed_convolution_with_endless_padding():
    return one("ConvTranspose", [1, 1, 3, 3], [1, 2, 3, 3], output_padding=[1, (1 << 63) - 1])


@bad(209, CULPRIT)
def transposed_convolution_to_an_endless_shape():
    return one("ConvTranspose", [1, 1, 3, 3], [1, 2, 3, 3], output_shape=[10, (1 << 63) - 1])


@bad(209, CULPRIT)
def transpose_perm_is_a_float():
    return one("Transpose", [2, 3], perm=1.0)


@bad(209, CULPRIT)
def softmax_axis_out_of_range():
    return one("Softmax", [2, 3], axis=9)


@bad(209, CULPRIT)
def concat_without_axis():
    return one("Concat", [2, 3], [2, 3])


@bad(209, CULPRIT)
def convolution_stride_zero():
    return one("Conv", [1, 3, 8, 8], [4, 3, 3, 3], strides=[0, 1])


@bad(209, CULPRIT)
def convolution_strides_of_wrong_length():
    return one("Conv", [1, 3, 8, 8], [4, 3, 3, 3], strides=[1, 1, 1])


@bad(209, CULPRIT)
def cast_to_nothing():
    return one("Cast", [2], to=99)


@bad(209, CULPRIT)
def pad_mode_unknown():
    return one("Pad", [2, 3], constants={"p": np.array([1, 1, 1, 1], np.int64)}, mode="sideways")


@bad(209, CULPRIT)
def constant_without_value():
    return model([node("Constant", [], ["y"])], [], [value("y", [2])])
