#include "runtime/bound_ops.h"

#include <cstring>
#include <deque>

#include "runtime/memory.h"

namespace deepjit {

namespace {

class ConcreteInfer final : public InferContext {
 public:
  ConcreteInfer(const Step& step, const std::vector<const BufferState*>& inputs, std::vector<InferredOutput>& outputs,
                int64_t& next_symbol)
      : step_(step), inputs_(inputs), outputs_(outputs), next_symbol_(next_symbol), values_(inputs.size()) {}

  const Attributes& attrs() const override { return step_.attrs; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const override { return i >= 0 && i < num_inputs() && inputs_[at(i)] != nullptr; }
  const TensorType& input(int i) const override {
    check_internal(has_input(i), "shape rule reads an omitted input");
    return inputs_[at(i)]->type;
  }
  const Tensor* input_data(int i) const override {
    return has_input(i) && inputs_[at(i)]->known.defined() ? &inputs_[at(i)]->known : nullptr;
  }
  const std::vector<Dim>* input_values(int i) const override {
    const Tensor* known = input_data(i);
    if (known == nullptr || known->dims().rank() > 1) return nullptr;
    if (!is_integer(known->dtype()) && known->dtype() != DType::BOOL) return nullptr;
    std::optional<std::vector<Dim>>& cached = values_[at(i)];
    if (!cached) {
      cached.emplace();
      for (int64_t v : known->to_i64()) cached->emplace_back(v);
    }
    return &*cached;
  }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  using InferContext::set_output;
  void set_output(int i, TensorType type) override {
    if (i < num_outputs()) outputs_[at(i)].type = std::move(type);
  }
  void set_output_values(int i, std::vector<Dim> values) override {
    if (i < num_outputs()) outputs_[at(i)].values = std::move(values);
  }
  Dim fresh_dim() override { return Dim::symbol("?" + std::to_string(next_symbol_++)); }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  const Step& step_;
  const std::vector<const BufferState*>& inputs_;
  std::vector<InferredOutput>& outputs_;
  int64_t& next_symbol_;
  mutable std::vector<std::optional<std::vector<Dim>>> values_;
};

class Eval final : public EvalContext {
 public:
  Eval(const Step& step, const std::vector<TensorView>& inputs, const AllocateOutput& allocate)
      : step_(step), inputs_(inputs), allocate_(allocate) {}

  const Attributes& attrs() const override { return step_.attrs; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const override {
    return i >= 0 && i < num_inputs() && inputs_[static_cast<size_t>(i)].dtype != DType::UNDEFINED;
  }
  const TensorView& input(int i) const override {
    check_internal(has_input(i), "reference reads an omitted input");
    return inputs_[static_cast<size_t>(i)];
  }
  int num_outputs() const override { return static_cast<int>(step_.outputs.size()); }
  bool has_output(int i) const override {
    return i >= 0 && i < num_outputs() && step_.outputs[static_cast<size_t>(i)] >= 0;
  }
  TensorView output(int i, DType dtype, const Dims& dims) override {
    check_internal(has_output(i), "reference writes an unwanted output");
    return {dtype, dims, allocate_(i, TensorDesc{dtype, dims})};
  }
  void* scratch(size_t bytes) override {
    scratch_.emplace_back();
    return scratch_.back().ensure(bytes);
  }

 private:
  const Step& step_;
  const std::vector<TensorView>& inputs_;
  const AllocateOutput& allocate_;
  std::deque<Memory> scratch_;
};

}  // namespace

Tensor InferredOutput::known() const {
  const auto dims = type.shape.as_const();
  if (!values || !dims || dims->count() != static_cast<int64_t>(values->size())) return {};
  if (!is_integer(type.dtype) && type.dtype != DType::BOOL) return {};
  Tensor out(type.dtype, *dims);
  for (size_t i = 0; i < values->size(); ++i) {
    if (!(*values)[i].is_const()) return {};
    const int64_t value = (*values)[i].value();  // little endian: the low bytes are the narrow integer
    std::memcpy(out.as<uint8_t>() + i * dtype_size(type.dtype), &value, dtype_size(type.dtype));
  }
  return out;
}

std::vector<InferredOutput> infer_step(const Step& step, const std::vector<const BufferState*>& inputs,
                                       int64_t& next_symbol) {
  std::vector<InferredOutput> outputs(step.outputs.size());
  ConcreteInfer context(step, inputs, outputs, next_symbol);
  find_op(step.op).infer(context);
  return outputs;
}

void evaluate_dynamic(const Step& step, const std::vector<TensorView>& inputs, const AllocateOutput& allocate) {
  Eval context(step, inputs, allocate);
  find_op(step.op).evaluate(context);
}

std::vector<Tensor> evaluate_known(const Step& step, const std::vector<const BufferState*>& inputs) {
  std::vector<TensorView> views;
  for (const BufferState* state : inputs) views.push_back(state == nullptr ? TensorView{} : state->known.view());
  std::vector<Tensor> outputs(step.outputs.size());
  evaluate_dynamic(step, views, [&](int i, const TensorDesc& desc) {
    outputs[static_cast<size_t>(i)] = Tensor(desc.dtype, desc.dims);
    return outputs[static_cast<size_t>(i)].view().data;
  });
  return outputs;
}

}  // namespace deepjit
