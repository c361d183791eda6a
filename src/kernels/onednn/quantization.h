// Scales and zero points of the integer families, from the step's constants.
#pragma once

#include <optional>

#include "kernels/onednn/families.h"

namespace deepjit::onednn {

struct IntegerWeights {
  int input;               // which operand
  int32_t zero_point = 0;  // of the int8 form
  bool flipped = false;    // the operand is uint8
};
// The weights, or nothing when their zero point is computed at run time or differs between channels.
std::optional<IntegerWeights> integer_weights(const StepShape& shape, int input, int zero_point_input);

// The constant scales of a QLinear op; nothing when one is computed at run time or x or y has several.
// The result has one multiplier x_scale * w_scale / y_scale per output channel, or one for all.
std::optional<std::vector<float>> multipliers(const StepShape& shape, int x_scale, int w_scale, int y_scale);

// The zero point of an activation as oneDNN wants it.
struct ZeroPoint {
  int input = -1;      // the operand, -1 for none
  bool zero = true;    // known to be 0: needs no attribute
  std::string reason;  // why it cannot be used
};
ZeroPoint zero_point(const StepShape& shape, int input);
int zero_point_slot(PrimitiveKernel& kernel, const StepShape& shape, const ZeroPoint& zero);

// A constant of n values kept by the kernel.
int constant_ints(PrimitiveKernel& kernel, const std::vector<int32_t>& values);
int constant_floats(PrimitiveKernel& kernel, const std::vector<float>& values);

}  // namespace deepjit::onednn
