#include "tune/odd_sizes.h"

#include <map>

namespace deepjit {

namespace {

constexpr int64_t kSizes[] = {19, 7, 5, 3};  // 19: past one vector of any width
constexpr int64_t kMostElements = 1 << 20;

class Resizer {
 public:
  explicit Resizer(const Program& program) : program_(program) {}

  // False when a size is not known.
  bool resize(TuneTask& task) {
    const Step& step = program_.steps[static_cast<size_t>(task.step)];
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      const bool fixed = task.constants[i].defined();
      if (fixed && !buffer(step.inputs[i]).is_constant) return false;  // known only at the sizes it was bound for
      if (!fixed && !resize(step.inputs[i], task.inputs[i])) return false;
    }
    for (size_t i = 0; i < task.outputs.size(); ++i) {
      if (!resize(step.outputs[i], task.outputs[i])) return false;
    }
    for (TuneTask& inner : task.body) {
      if (!resize(inner)) return false;
    }
    return true;
  }
  bool changed() const { return !sizes_.empty(); }

 private:
  const Buffer& buffer(int32_t index) const { return program_.buffers[static_cast<size_t>(index)]; }

  bool resize(int32_t index, TensorDesc& desc) {
    if (index < 0 || desc.dtype == DType::UNDEFINED) return true;
    const Shape& shape = buffer(index).type.shape;
    if (!shape.ranked() || shape.rank() != desc.dims.rank()) return false;
    int64_t count = 1;
    for (int d = shape.rank(); d-- > 0;) {
      const auto size = shape[d].evaluate([&](const std::string& symbol) -> std::optional<int64_t> {
        const size_t next = std::min(sizes_.size(), std::size(kSizes) - 1);
        return sizes_.emplace(symbol, kSizes[next]).first->second;
      });
      if (!size || *size < 1) return false;
      desc.dims[d] = *size;
      count = checked_mul(count, *size);
    }
    return count <= kMostElements;
  }

  const Program& program_;
  std::map<std::string, int64_t> sizes_;
};

}  // namespace

std::optional<TuneTask> at_odd_sizes(const Program& program, const TuneTask& task) {
  TuneTask odd = task;
  Resizer resizer(program);
  if (!resizer.resize(odd) || !resizer.changed()) return std::nullopt;
  return odd;
}

}  // namespace deepjit
