#include "passes/evaluate_op.h"

namespace deepjit {

namespace {

class HostContext final : public EvalContext {
 public:
  HostContext(const Attributes& attrs, const std::vector<Tensor>& inputs, const std::vector<bool>& wanted,
              int64_t max_bytes)
      : attrs_(attrs), inputs_(inputs), wanted_(wanted), max_bytes_(max_bytes), outputs_(wanted.size()) {}

  const Attributes& attrs() const override { return attrs_; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const override { return i >= 0 && i < num_inputs() && inputs_[index(i)].defined(); }
  const TensorView& input(int i) const override {
    check_internal(has_input(i), "reference reads an omitted input");
    return inputs_[index(i)].view();
  }
  int num_outputs() const override { return static_cast<int>(wanted_.size()); }
  bool has_output(int i) const override { return i >= 0 && i < num_outputs() && wanted_[index(i)]; }
  TensorView output(int i, DType dtype, const Dims& dims) override {
    if (TensorDesc{dtype, dims}.bytes() > max_bytes_) throw Error(Code::LIMIT, "the result is too large");
    outputs_[index(i)] = Tensor(dtype, dims);
    return outputs_[index(i)].view();
  }
  void* scratch(size_t bytes) override {
    scratch_.emplace_back(DType::UINT8, Dims{static_cast<int64_t>(bytes)});
    return scratch_.back().view().data;
  }
  std::vector<Tensor> take() { return std::move(outputs_); }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }

  const Attributes& attrs_;
  const std::vector<Tensor>& inputs_;
  const std::vector<bool>& wanted_;
  int64_t max_bytes_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> scratch_;
};

}  // namespace

std::vector<Tensor> evaluate_op(const OpDef& def, const Attributes& attrs, const std::vector<Tensor>& inputs,
                                const std::vector<bool>& wanted, int64_t max_bytes) {
  check_internal(static_cast<bool>(def.evaluate), "op " + def.name + " has no reference");
  HostContext context(attrs, inputs, wanted, max_bytes);
  def.evaluate(context);
  return context.take();
}

}  // namespace deepjit
