#include "kernels/launch_words.h"

namespace deepjit {

namespace {
constexpr int64_t kMostItems = 4096;
constexpr int64_t kMostOperands = 1 << 20;

[[noreturn]] void damaged() { throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is damaged"); }

}  // namespace

void write_quantities(std::vector<int64_t>& words, const std::vector<Quantity>& list) {
  words.push_back(static_cast<int64_t>(list.size()));
  for (const Quantity& q : list) {
    words.push_back(q.factor);
    words.push_back(static_cast<int64_t>(q.dims.size()));
    for (const Quantity::Factor& f : q.dims) words.push_back(f.operand * 256 + f.axis);
  }
}

const StepShape& ComboPlace::step_of(const StepShape& combo) const {
  if (static_cast<size_t>(place) >= combo.body.size()) damaged();
  const StepShape& step = combo.body[static_cast<size_t>(place)];
  if (operands.size() != step.inputs.size() + step.outputs.size()) damaged();
  for (int64_t operand : operands) {
    if (static_cast<size_t>(operand) >= combo.inputs.size() + combo.outputs.size()) damaged();
  }
  return step;
}

void write_combo_place(std::vector<int64_t>& words, const ComboPlace& place) {
  words.insert(words.end(), {place.place, static_cast<int64_t>(place.operands.size())});
  words.insert(words.end(), place.operands.begin(), place.operands.end());
}

void write_text(std::vector<int64_t>& words, const std::string& text) {
  words.push_back(static_cast<int64_t>(text.size()));
  for (const char c : text) words.push_back(static_cast<unsigned char>(c));
}

LaunchWords::LaunchWords(const Tensor& tensor) {
  if (tensor.dtype() == DType::INT64) words_ = tensor.to_i64();
}

int64_t LaunchWords::next() {
  if (at_ == words_.size()) throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is too short");
  return words_[at_++];
}

int64_t LaunchWords::next(int64_t least, int64_t most) {
  const int64_t word = next();
  if (word < least || word > most) damaged();
  return word;
}

ComboPlace LaunchWords::combo_place() {
  ComboPlace out;
  out.place = next(0, INT64_MAX);
  const int64_t operands = next(0, kMostOperands);
  for (int64_t k = 0; k < operands; ++k) out.operands.push_back(next(0, kMostOperands));
  return out;
}

std::string LaunchWords::text() {
  std::string out(static_cast<size_t>(next(0, kMostItems)), ' ');
  for (char& c : out) c = static_cast<char>(next(1, 127));
  return out;
}

std::vector<Quantity> LaunchWords::quantities() {
  std::vector<Quantity> out(static_cast<size_t>(next(0, kMostItems)));
  for (Quantity& q : out) {
    q.factor = next();
    const int64_t dims = next(0, kMostItems);
    for (int64_t k = 0; k < dims; ++k) {
      const int64_t packed = next();
      if (packed < 0 || packed >= 256 * 256) throw Error(Code::ENGINE_RANGE, "a kernel size names no dim");
      q.dims.push_back({static_cast<int16_t>(packed / 256), static_cast<int16_t>(packed % 256)});
    }
  }
  return out;
}

int64_t value_of(const Quantity& quantity, const StepShape& shape) {
  int64_t product = quantity.factor;
  for (const Quantity::Factor& f : quantity.dims) {
    const auto k = static_cast<size_t>(f.operand);
    const size_t inputs = shape.inputs.size();
    if (k >= inputs + shape.outputs.size()) throw Error(Code::ENGINE_RANGE, "a kernel size names no operand");
    const Dims& dims = k < inputs ? shape.inputs[k].dims : shape.outputs[k - inputs].dims;
    if (f.axis >= dims.rank()) throw Error(Code::ENGINE_RANGE, "a kernel size names no dim");
    product = checked_mul(product, dims[f.axis]);
  }
  return product;
}

const Tensor* packed_data(const Tactic& tactic, const std::string& format) {
  for (const PackedOperand& packed : tactic.packed) {
    if (packed.format == format) return &packed.data;
  }
  return nullptr;
}

}  // namespace deepjit
