#include "tune/wide_region.h"

#include <algorithm>

namespace deepjit {

bool is_16_bit_float(DType type) { return type == DType::FLOAT16 || type == DType::BFLOAT16; }

namespace {

bool any_16_bits(const std::vector<TensorDesc>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const TensorDesc& d) { return is_16_bit_float(d.dtype); });
}

TensorDesc wide(TensorDesc desc) {
  if (is_16_bit_float(desc.dtype)) desc.dtype = DType::FLOAT32;
  return desc;
}

}  // namespace

bool computes_in_16_bits(const StepShape& region) {
  return std::any_of(region.body.begin(), region.body.end(), [](const StepShape& inner) {
    return any_16_bits(inner.inputs) || any_16_bits(inner.outputs) || computes_in_16_bits(inner);
  });
}

class WideRegion::Steps {
 public:
  Steps(const StepShape& region, std::deque<Step>& steps) : region_(region), steps_(steps) {
    for (const StepShape& inner : region.body) {
      for (const auto* list : {&inner.step->inputs, &inner.step->outputs}) {
        for (int32_t buffer : *list) next_ = std::max(next_, buffer + 1);
      }
    }
  }

  std::vector<StepShape> run() {
    for (const StepShape& inner : region_.body) {
      if (inner.step->op == "Cast" && is_16_bit_float(inner.outputs[0].dtype))
        add_cast(inner);
      else
        add(inner);
    }
    for (size_t i = 0; i < region_.outputs.size(); ++i) {
      const int32_t buffer = region_.step->outputs[i];
      const TensorDesc& desc = region_.outputs[i];
      if (is_16_bit_float(desc.dtype)) append("Cast", {wide_.at(buffer)}, {buffer}, {wide(desc)}, {desc}, {nullptr});
    }
    return std::move(body_);
  }

 private:
  StepShape& append(const std::string& op, std::vector<int32_t> inputs, std::vector<int32_t> outputs,
                    std::vector<TensorDesc> in, std::vector<TensorDesc> out, std::vector<const Tensor*> constants) {
    Step& step = steps_.emplace_back();
    step.op = op;
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
    if (op == "Cast") step.attrs.set("to", static_cast<int64_t>(out[0].dtype));
    StepShape& shape = body_.emplace_back();
    shape.program = region_.program;
    shape.step = &step;
    shape.inputs = std::move(in);
    shape.outputs = std::move(out);
    shape.constants = std::move(constants);
    return shape;
  }

  // The number of an operand's float32 copy, which is made here when the value comes from outside.
  int32_t read(const StepShape& inner, size_t i) {
    const int32_t buffer = inner.step->inputs[i];
    if (buffer < 0 || !is_16_bit_float(inner.inputs[i].dtype)) return buffer;
    const auto [it, is_new] = wide_.emplace(buffer, next_);
    if (!is_new) return it->second;
    append("Cast", {buffer}, {next_}, {inner.inputs[i]}, {wide(inner.inputs[i])}, {inner.constants[i]});
    return next_++;
  }

  int32_t write(int32_t buffer, DType type) {
    if (buffer < 0 || !is_16_bit_float(type)) return buffer;
    return wide_[buffer] = next_++;
  }

  void add(const StepShape& inner) {
    std::vector<int32_t> inputs, outputs;
    std::vector<TensorDesc> in, out;
    std::vector<const Tensor*> constants;
    for (size_t i = 0; i < inner.inputs.size(); ++i) {
      inputs.push_back(read(inner, i));
      in.push_back(wide(inner.inputs[i]));
      constants.push_back(inputs.back() == inner.step->inputs[i] ? inner.constants[i] : nullptr);
    }
    for (size_t i = 0; i < inner.outputs.size(); ++i) {
      outputs.push_back(write(inner.step->outputs[i], inner.outputs[i].dtype));
      out.push_back(wide(inner.outputs[i]));
    }
    append(inner.step->op, inputs, outputs, in, out, constants);
    Attributes& attrs = steps_.back().attrs;
    attrs = inner.step->attrs;
    const auto asked = static_cast<DType>(attrs.get_int("output_dtype", 0));
    if (is_16_bit_float(asked)) attrs.set("output_dtype", static_cast<int64_t>(DType::FLOAT32));
  }

  // A Cast to 16 bits: from another type it rounds.
  void add_cast(const StepShape& inner) {
    const TensorDesc& from = inner.inputs[0];
    const TensorDesc& to = inner.outputs[0];
    const int32_t x = read(inner, 0);
    const Tensor* constant = x == inner.step->inputs[0] ? inner.constants[0] : nullptr;
    if (from.dtype == to.dtype) {
      append("Cast", {x}, {write(inner.step->outputs[0], to.dtype)}, {wide(from)}, {wide(to)}, {constant});
      return;
    }
    const int32_t narrow = next_++;
    append("Cast", {x}, {narrow}, {wide(from)}, {to}, {constant});
    append("Cast", {narrow}, {write(inner.step->outputs[0], to.dtype)}, {to}, {wide(to)}, {nullptr});
  }

  const StepShape& region_;
  std::deque<Step>& steps_;
  std::vector<StepShape> body_;
  std::map<int32_t, int32_t> wide_;  // a 16-bit value's float32 copy
  int32_t next_ = 0;
};

WideRegion::WideRegion(const StepShape& step) : shape_(step) { widen(shape_); }

void WideRegion::widen(StepShape& region) {
  if (!computes_in_16_bits(region)) return;
  const bool combo =
      std::any_of(region.body.begin(), region.body.end(), [](const StepShape& inner) { return !inner.body.empty(); });
  if (combo) {
    for (StepShape& part : region.body) widen(part);
  } else {
    region.body = Steps(region, steps_).run();
  }
}

}  // namespace deepjit
