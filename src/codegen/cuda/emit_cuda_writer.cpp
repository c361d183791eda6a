#include "codegen/cuda/emit_cuda_writer.h"

#include <algorithm>

namespace deepjit {

std::string cuda_memory_type(DType dtype) {
  switch (dtype) {
    case DType::FLOAT32:
      return "float";
    case DType::FLOAT64:
      return "double";
    case DType::INT32:
      return "int";
    case DType::INT64:
      return "long long";
    case DType::INT16:
      return "short";
    case DType::INT8:
      return "signed char";
    default:
      return dtype_size(dtype) == 2 ? "unsigned short" : "unsigned char";  // FLOAT16, BFLOAT16, UINT16; BOOL, UINT8
  }
}

std::string cuda_register_type(DType dtype) { return dtype == DType::BOOL ? "bool" : cuda_memory_type(dtype); }

std::string CudaWriter::vector_name(DType dtype, int count) {
  std::string name = cuda_memory_type(dtype);
  std::replace(name.begin(), name.end(), ' ', '_');
  return fmt::format("{}_x{}", name, count);
}

std::string CudaWriter::finish() const {
  std::string text;
  std::set<std::string> defined;
  for (const auto& [dtype, count] : vectors_) {
    const std::string name = vector_name(dtype, count);
    if (!defined.insert(name).second) continue;
    const int bytes = std::min(16, count * static_cast<int>(dtype_size(dtype)));
    text += fmt::format("struct __align__({}) {} {{\n  {} at[{}];\n}};\n", bytes, name, cuda_memory_type(dtype), count);
  }
  return text + cuda_library_text(used_) + (text.empty() && used_.empty() ? "" : "\n") + body_;
}

}  // namespace deepjit
