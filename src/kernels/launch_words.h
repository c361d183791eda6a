// Launch data of generated kernels as 64-bit words: how they are stored in an engine beside the code, and what their
// quantities are at concrete shapes.
#pragma once

#include <vector>

#include "base/tensor.h"
#include "kernels/kernel.h"
#include "program/quantity.h"

namespace deepjit {

void write_quantities(std::vector<int64_t>& words, const std::vector<Quantity>& list);

// Where a kernel of a combo stands: its step in the combo's block, and which of the combo's operands its own are.
struct ComboPlace {
  int64_t place = 0;
  std::vector<int64_t> operands;

  // Its step. Throws Error(ENGINE_RANGE) where the combo has no such step or operands.
  const StepShape& step_of(const StepShape& combo) const;
};
constexpr int64_t kMostComboKernels = 4096;
void write_combo_place(std::vector<int64_t>& words, const ComboPlace& place);

// Reads words one after another. Throws Error(ENGINE_RANGE) where they end too early or make no sense.
class LaunchWords {
 public:
  explicit LaunchWords(const Tensor& tensor);
  int64_t next();
  // A word that must lie in [least, most].
  int64_t next(int64_t least, int64_t most);
  std::string text();
  std::vector<Quantity> quantities();
  ComboPlace combo_place();

 private:
  std::vector<int64_t> words_;
  size_t at_ = 0;
};

void write_text(std::vector<int64_t>& words, const std::string& text);

// The quantity's value for this step. Throws Error(ENGINE_RANGE) where it names a dim that the step does not have.
int64_t value_of(const Quantity& quantity, const StepShape& shape);

// The packed operand of this format, or nullptr.
const Tensor* packed_data(const Tactic& tactic, const std::string& format);

}  // namespace deepjit
