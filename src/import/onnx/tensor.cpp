#include "import/onnx/tensor.h"

#include <algorithm>

#include "base/small_types.h"
#include "base/visit.h"
#include "import/onnx/text.h"
#include "onnx-ml.pb.h"

namespace deepjit::importer {

namespace {

[[noreturn]] void bad_data(const std::string& why) { throw Error(Code::TENSOR_DATA, why); }

template <typename Dimensions>
Dims dims_from(const Dimensions& proto) {
  Dims dims;
  for (int64_t d : proto) {
    if (d < 0) bad_data("dimension " + std::to_string(d) + " is negative");
    dims.push_back(d);
  }
  return dims;
}

// Bytes as ONNX stores them: as many packed elements in a byte as fit.
int64_t stored_bytes(DType dtype, int64_t count) {
  if (is_packed(dtype)) {
    const int64_t in_byte = 8 / dtype_bits(dtype);
    return count / in_byte + (count % in_byte != 0);
  }
  return checked_mul(count, static_cast<int64_t>(dtype_size(dtype)));
}

void unpack(Tensor& out, const uint8_t* packed) {
  const int bits = dtype_bits(out.dtype());
  const int64_t in_byte = 8 / bits;
  auto* to = out.as<uint8_t>();
  for (int64_t i = 0, n = out.count(); i < n; ++i) {
    to[i] = packed_element(out.dtype(), static_cast<uint8_t>(packed[i / in_byte] >> (i % in_byte * bits)));
  }
}

// From bytes in ONNX's storage order, which the caller has sized.
void fill_raw(Tensor& out, const void* bytes) {
  if (is_packed(out.dtype())) return unpack(out, static_cast<const uint8_t*>(bytes));
  std::memcpy(out.as<uint8_t>(), bytes, static_cast<size_t>(out.bytes()));
  if (out.dtype() == DType::BOOL) {
    for (int64_t i = 0; i < out.count(); ++i) out.as<uint8_t>()[i] = out.as<uint8_t>()[i] != 0;
  }
}

void check_count(int64_t got, int64_t want, const char* field) {
  if (got != want) {
    bad_data(std::string(field) + " holds " + std::to_string(got) + " entries, type and shape need " +
             std::to_string(want));
  }
}

template <typename T, typename Field>
Tensor from_field(DType dtype, const Dims& dims, const Field& field, const char* name) {
  check_count(field.size(), dims.count(), name);
  Tensor out(dtype, dims);
  std::transform(field.begin(), field.end(), out.as<T>(), [](auto v) { return static_cast<T>(v); });
  return out;
}

Tensor from_int32_data(DType dtype, const Dims& dims, const onnx::TensorProto& proto) {
  if (is_packed(dtype)) {
    check_count(proto.int32_data_size(), stored_bytes(dtype, dims.count()), "int32_data");
    std::vector<uint8_t> bytes(proto.int32_data().begin(), proto.int32_data().end());
    Tensor out(dtype, dims);
    unpack(out, bytes.data());
    return out;
  }
  if (dtype == DType::BOOL) {
    check_count(proto.int32_data_size(), dims.count(), "int32_data");
    Tensor out(dtype, dims);
    for (int i = 0; i < proto.int32_data_size(); ++i) out.as<uint8_t>()[i] = proto.int32_data(i) != 0;
    return out;
  }
  switch (dtype_size(dtype)) {
    case 1:
      return from_field<uint8_t>(dtype, dims, proto.int32_data(), "int32_data");
    case 2:
      return from_field<uint16_t>(dtype, dims, proto.int32_data(), "int32_data");
    default:
      return from_field<uint32_t>(dtype, dims, proto.int32_data(), "int32_data");
  }
}

Tensor from_typed_field(DType dtype, const Dims& dims, const onnx::TensorProto& proto) {
  switch (dtype) {
    case DType::FLOAT32:
      return from_field<float>(dtype, dims, proto.float_data(), "float_data");
    case DType::FLOAT64:
      return from_field<double>(dtype, dims, proto.double_data(), "double_data");
    case DType::INT64:
      return from_field<int64_t>(dtype, dims, proto.int64_data(), "int64_data");
    case DType::UINT64:
    case DType::UINT32:
      if (dtype == DType::UINT64) return from_field<uint64_t>(dtype, dims, proto.uint64_data(), "uint64_data");
      return from_field<uint32_t>(dtype, dims, proto.uint64_data(), "uint64_data");
    case DType::STRING: {
      check_count(proto.string_data_size(), dims.count(), "string_data");
      Tensor out(dtype, dims);
      std::copy(proto.string_data().begin(), proto.string_data().end(), out.as<std::string>());
      return out;
    }
    default:
      return from_int32_data(dtype, dims, proto);
  }
}

Tensor from_external(DType dtype, const Dims& dims, const onnx::TensorProto& proto, ExternalData& external) {
  if (dtype == DType::STRING) bad_data("strings cannot be external data");
  external.locate(proto, stored_bytes(dtype, dims.count()));
  Tensor out(dtype, dims);
  if (!is_packed(dtype) && dtype != DType::BOOL) {
    external.read(out.as<void>());
    return out;
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(stored_bytes(dtype, dims.count())));
  external.read(bytes.data());
  fill_raw(out, bytes.data());
  return out;
}

// Linear positions of the values of a sparse tensor.
std::vector<int64_t> sparse_positions(const Tensor& indices, const Dims& dims, int64_t nnz) {
  const std::vector<int64_t> raw = indices.to_i64();
  const bool coordinates = indices.dims().rank() == 2;
  const int64_t width = coordinates ? dims.rank() : 1;
  if ((!coordinates && indices.dims().rank() != 1) || indices.dims()[0] != nnz ||
      (coordinates && indices.dims()[1] != width)) {
    bad_data("sparse indices have shape " + indices.dims().to_string() + ", which does not fit " + std::to_string(nnz) +
             " values of a tensor of rank " + std::to_string(dims.rank()));
  }
  const Dims strides = dims.strides();
  std::vector<int64_t> out;
  for (int64_t i = 0; i < nnz; ++i) {
    int64_t position = 0;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t index = raw[static_cast<size_t>(i * width + j)];
      const int64_t limit = coordinates ? dims[static_cast<int>(j)] : dims.count();
      if (index < 0 || index >= limit) bad_data("sparse index " + std::to_string(index) + " is out of range");
      position += coordinates ? index * strides[static_cast<int>(j)] : index;
    }
    out.push_back(position);
  }
  return out;
}

}  // namespace

DType dtype_from_onnx(int number) {
  if ((number >= 1 && number <= 13) || (number >= 16 && number <= 26)) return static_cast<DType>(number);
  const std::string name = number == 0    ? "undefined"
                           : number == 14 ? "complex64"
                           : number == 15 ? "complex128"
                                          : std::to_string(number);
  throw Error(Code::TYPE, "element type " + name + " is not supported");
}

Tensor tensor_from_proto(const onnx::TensorProto& proto, ExternalData& external) {
  const DType dtype = dtype_from_onnx(proto.data_type());
  if (proto.has_segment()) bad_data("tensors in segments are not supported");
  const Dims dims = dims_from(proto.dims());
  const int64_t count = dims.count();
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) return from_external(dtype, dims, proto, external);
  if (!proto.has_raw_data()) return from_typed_field(dtype, dims, proto);
  if (dtype == DType::STRING) bad_data("strings cannot be raw data");
  const int64_t bytes = stored_bytes(dtype, count);
  if (static_cast<int64_t>(proto.raw_data().size()) != bytes) {
    bad_data("raw_data holds " + std::to_string(proto.raw_data().size()) + " bytes, " + std::string(dtype_name(dtype)) +
             dims.to_string() + " needs " + std::to_string(bytes));
  }
  Tensor out(dtype, dims);
  if (bytes != 0) fill_raw(out, proto.raw_data().data());
  return out;
}

int64_t dense_bytes(const onnx::SparseTensorProto& proto) {
  return TensorDesc{dtype_from_onnx(proto.values().data_type()), dims_from(proto.dims())}.bytes();
}

Tensor dense_from_sparse(const onnx::SparseTensorProto& proto, ExternalData& external, int64_t& bytes_left) {
  const Tensor values = tensor_from_proto(proto.values(), external);
  const Tensor indices = tensor_from_proto(proto.indices(), external);
  if (values.dtype() == DType::STRING) throw Error(Code::TYPE, "sparse tensors of strings are not supported");
  if (indices.dtype() != DType::INT64) bad_data("sparse indices must be int64");
  if (values.dims().rank() != 1) bad_data("sparse values must have rank 1");
  const Dims dims = dims_from(proto.dims());
  const int64_t bytes = TensorDesc{values.dtype(), dims}.bytes();
  if (bytes > bytes_left) {
    throw Error(Code::LIMIT, "a sparse tensor of shape " + dims.to_string() + " takes " + std::to_string(bytes) +
                                 " bytes when expanded, " + std::to_string(bytes_left) + " are left for all of them");
  }
  bytes_left -= bytes;
  const std::vector<int64_t> positions = sparse_positions(indices, dims, values.dims()[0]);
  Tensor out(values.dtype(), dims);
  std::memset(out.as<void>(), 0, static_cast<size_t>(bytes));
  const size_t size = dtype_size(values.dtype());
  for (size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(out.as<uint8_t>() + static_cast<size_t>(positions[i]) * size, values.as<uint8_t>() + i * size, size);
  }
  return out;
}

Tensor scalar_of(DType dtype, double value, const Dims& dims) {
  Tensor out(dtype, dims);
  visit_numeric(dtype, "constant", [&]<typename T>() { *out.as<T>() = T(static_cast<compute_t<T>>(value)); });
  return out;
}

}  // namespace deepjit::importer
