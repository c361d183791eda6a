#include "import/onnx/builder.h"
#include "import/onnx/tensor.h"
#include "import/onnx/text.h"

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

TensorType Builder::type_from_proto(const onnx::ValueInfoProto& info) {
  const onnx::TypeProto& type = info.type();
  if (!type.has_tensor_type()) {
    if (type.value_case() != onnx::TypeProto::VALUE_NOT_SET) {
      const char* kind = type.has_sequence_type()        ? "a sequence"
                         : type.has_map_type()           ? "a map"
                         : type.has_optional_type()      ? "an optional"
                         : type.has_sparse_tensor_type() ? "a sparse tensor"
                                                         : "opaque";
      note_unsupported("value " + quoted(info.name()) + " that is " + kind);
    }
    return {};
  }
  TensorType out;
  if (type.tensor_type().elem_type() != 0) {
    try {
      out.dtype = dtype_from_onnx(type.tensor_type().elem_type());
    } catch (const Error& e) {
      throw e.with_prefix("value " + quoted(info.name()) + ": ");
    }
  }
  if (type.tensor_type().has_shape()) {
    const auto& shape = type.tensor_type().shape();
    if (shape.dim_size() > kMaxRank) {
      throw Error(Code::LIMIT, "value " + quoted(info.name()) + " has rank " + std::to_string(shape.dim_size()) +
                                   ", the limit is " + std::to_string(kMaxRank));
    }
    std::vector<Dim> dims;
    for (const auto& dim : shape.dim()) dims.push_back(dim_from_proto(dim));
    out.shape = Shape(std::move(dims));
    check_bytes(out, "value " + quoted(info.name()));
  }
  return out;
}

}  // namespace deepjit::importer
