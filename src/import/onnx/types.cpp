#include "import/onnx/builder.h"
#include "import/onnx/tensor.h"
#include "import/onnx/text.h"
#include "ops/sequence/sequence.h"

namespace deepjit::importer {

Dim Builder::dim_from_proto(const onnx::TensorShapeProto::Dimension& dim) {
  if (dim.has_dim_value()) return dim.dim_value() < 0 ? root_.fresh_dim() : Dim(dim.dim_value());
  const std::string& param = dim.dim_param();
  check_name(param, "dimension");
  // Exporters write these for "not known", not for one common size.
  if (param.empty() || param == "?" || param == "None" || param == "-1" || param == "*") return root_.fresh_dim();
  auto [entry, added] = symbols_.emplace(param, "");
  if (added) {
    std::string symbol = symbol_name(param);
    while (!symbol_names_.insert(symbol).second) symbol += "_";
    entry->second = symbol;
  }
  return Dim::symbol(entry->second);
}

void check_bytes(const TensorType& type, const std::string& what) {
  if (!type.shape.ranked()) return;
  int64_t bytes = type.dtype == DType::STRING ? 1 : static_cast<int64_t>(dtype_size(type.dtype));
  try {
    for (const Dim& dim : type.shape.dims()) {
      if (dim.is_const() && dim.value() > 0) bytes = checked_mul(bytes, dim.value());
    }
  } catch (const Error&) {
    throw Error(Code::SHAPE_OVERFLOW, what + " has shape " + type.shape.to_string() + ", its size overflows");
  }
}

TensorType Builder::tensor_type(const onnx::TypeProto::Tensor& type, const std::string& what) {
  TensorType out;
  if (type.elem_type() != 0) {
    try {
      out.dtype = dtype_from_onnx(type.elem_type());
    } catch (const Error& e) {
      throw e.with_prefix(what + ": ");
    }
  }
  if (!type.has_shape()) return out;
  if (type.shape().dim_size() > kMaxRank) {
    throw Error(Code::LIMIT, what + " has rank " + std::to_string(type.shape().dim_size()) + ", the limit is " +
                                 std::to_string(kMaxRank));
  }
  std::vector<Dim> dims;
  for (const auto& dim : type.shape().dim()) dims.push_back(dim_from_proto(dim));
  out.shape = Shape(std::move(dims));
  check_bytes(out, what);
  return out;
}

// ONNX has sequences of tensors, and optionals of tensors and of sequences; `depth` counts what is around this type.
TensorType Builder::type_from_proto(const onnx::TypeProto& type, const std::string& what, int depth) {
  using Kind = onnx::TypeProto;
  switch (type.value_case()) {
    case Kind::kTensorType:
      return tensor_type(type.tensor_type(), what);
    case Kind::kSequenceType:
    case Kind::kOptionalType: {
      const bool sequence = type.value_case() == Kind::kSequenceType;
      const int inner = sequence ? 2 : depth + 1;
      if (depth == 2 || (!sequence && depth == 1)) break;
      TensorType element =
          type_from_proto(sequence ? type.sequence_type().elem_type() : type.optional_type().elem_type(), what, inner);
      if (element.dtype == DType::UNDEFINED) return {};
      // ONNX's helpers write a shape without dims where the elements have any shape.
      if (element.shape.ranked() && element.shape.rank() == 0) element.shape = Shape();
      return collection_type(sequence ? DType::SEQUENCE : DType::OPTIONAL, root_.fresh_dim(), std::move(element));
    }
    case Kind::VALUE_NOT_SET:
      return {};
    default:
      break;
  }
  const char* kind = type.has_map_type()             ? "a map"
                     : type.has_sparse_tensor_type() ? "a sparse tensor"
                     : type.has_sequence_type()      ? "a sequence inside of a sequence"
                     : type.has_optional_type()      ? "an optional inside of another type"
                                                     : "opaque";
  note_unsupported(what + " that is " + kind);
  return {};
}

TensorType Builder::type_from_proto(const onnx::ValueInfoProto& info) {
  return type_from_proto(info.type(), "value " + quoted(info.name()), 0);
}

TensorType loose_type(const TensorType& type) {
  TensorType out{type.dtype, Shape()};
  if (type.element == nullptr) return out;
  return collection_type(type.dtype, Dim::symbol("?0"), loose_type(*type.element));
}

}  // namespace deepjit::importer
