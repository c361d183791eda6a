// TensorProto and TypeProto to Tensor and TensorType.
#pragma once

#include <optional>

#include "base/dim.h"
#include "base/tensor.h"
#include "import/onnx/external_data.h"

namespace onnx {
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace deepjit::importer {

// The element type with ONNX's number, or Error(TYPE).
DType dtype_from_onnx(int number);
// Throws TENSOR_DATA when the data does not fit type and shape, SHAPE_OVERFLOW, LIMIT, TYPE or the 3xx codes.
Tensor tensor_from_proto(const onnx::TensorProto& proto, ExternalData& external);
// Bytes of a sparse tensor when it is expanded.
int64_t dense_bytes(const onnx::SparseTensorProto& proto);
// Takes the bytes of the dense tensor from `bytes_left`; LIMIT when there are too few.
Tensor dense_from_sparse(const onnx::SparseTensorProto& proto, ExternalData& external, int64_t& bytes_left);
// `value` as a tensor of one element and shape `dims`, rounded to `dtype`; Error(TYPE) when it is not numeric.
Tensor scalar_of(DType dtype, double value, const Dims& dims = {});

}  // namespace deepjit::importer
