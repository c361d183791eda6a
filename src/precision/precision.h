// The types that a build may compute in, by the names that users give.
//
// fp32: everything in the types of the model. tf32: the same types, and products may round their operands to tf32's
// eleven bits. fp16, bf16: 16-bit values where that is safe (autocast.h).
#pragma once

#include <optional>
#include <string>

#include "base/types.h"

namespace deepjit {

enum class Precision { FP32, TF32, FP16, BF16 };

// Throws Error(ARGUMENT), with the list, for a name that is none.
Precision parse_precision(const std::string& name);
std::string precision_name(Precision precision);

// The 16-bit type that it puts values into; nothing for fp32 and tf32.
std::optional<DType> narrow_type(Precision precision);

}  // namespace deepjit
