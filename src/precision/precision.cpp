#include "precision/precision.h"

#include <array>
#include <utility>

namespace deepjit {

namespace {

constexpr std::array<std::pair<Precision, const char*>, 4> kNames = {
    {{Precision::FP32, "fp32"}, {Precision::TF32, "tf32"}, {Precision::FP16, "fp16"}, {Precision::BF16, "bf16"}}};

}  // namespace

Precision parse_precision(const std::string& name) {
  std::string list;
  for (const auto& [precision, text] : kNames) {
    if (name == text) return precision;
    list += (list.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(Code::ARGUMENT, "there is no precision \"" + name + "\"", "the precisions are " + list);
}

std::string precision_name(Precision precision) {
  for (const auto& [known, text] : kNames) {
    if (known == precision) return text;
  }
  return "";
}

std::optional<DType> narrow_type(Precision precision) {
  if (precision == Precision::FP16) return DType::FLOAT16;
  if (precision == Precision::BF16) return DType::BFLOAT16;
  return std::nullopt;
}

}  // namespace deepjit
