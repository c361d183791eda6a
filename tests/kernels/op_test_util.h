// Runs one op the way the runtime does, for tests: checks arity, runs the shape rule on the constant
// shapes, runs the reference, and checks that both agree on types, dims and known values.
//
//   std::vector<Tensor> out = run_op("Add", {}, {f32({2}, {1, 2}), f32({1}, {3})});
//   InferResult types = infer_op("Reshape", {}, {{DType::FLOAT32, {"N", "3"}}, known_values({"N", "3"})});
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/visit.h"
#include "ops/op.h"

namespace deepjit {

using AttrList = std::vector<std::pair<std::string, Attribute>>;

inline Attributes make_attrs(const AttrList& list) {
  Attributes attrs;
  for (const auto& [name, value] : list) attrs.set(name, value);
  return attrs;
}

// A tensor of any numeric type from plain numbers.
template <typename T, typename V>
Tensor make_tensor(DType dtype, const Dims& dims, const std::vector<V>& values) {
  EXPECT_EQ(dims.count(), static_cast<int64_t>(values.size())) << "test data does not fill its shape";
  Tensor t(dtype, dims);
  for (size_t i = 0; i < values.size(); ++i) t.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(values[i]));
  return t;
}
inline Tensor f32(const Dims& dims, const std::vector<float>& v) { return make_tensor<float>(DType::FLOAT32, dims, v); }
inline Tensor f64(const Dims& dims, const std::vector<double>& v) {
  return make_tensor<double>(DType::FLOAT64, dims, v);
}
inline Tensor f16(const Dims& dims, const std::vector<float>& v) {
  return make_tensor<float16>(DType::FLOAT16, dims, v);
}
inline Tensor bf16(const Dims& dims, const std::vector<float>& v) {
  return make_tensor<bfloat16>(DType::BFLOAT16, dims, v);
}
inline Tensor i64(const Dims& dims, const std::vector<int64_t>& v) {
  return make_tensor<int64_t>(DType::INT64, dims, v);
}
inline Tensor i32(const Dims& dims, const std::vector<int64_t>& v) {
  return make_tensor<int32_t>(DType::INT32, dims, v);
}
inline Tensor i16(const Dims& dims, const std::vector<int64_t>& v) {
  return make_tensor<int16_t>(DType::INT16, dims, v);
}
inline Tensor i8(const Dims& dims, const std::vector<int64_t>& v) { return make_tensor<int8_t>(DType::INT8, dims, v); }
inline Tensor u8(const Dims& dims, const std::vector<int64_t>& v) {
  return make_tensor<uint8_t>(DType::UINT8, dims, v);
}
inline Tensor bools(const Dims& dims, const std::vector<int64_t>& v) {
  return make_tensor<uint8_t>(DType::BOOL, dims, v);
}
inline Tensor scalar_i64(int64_t v) { return i64({}, {v}); }
inline Tensor scalar_bool(bool v) { return bools({}, {v}); }
inline Tensor none() { return Tensor(); }  // an omitted optional input

// What infer_op is told of one input: its type, and what is known of its elements.
struct InferInput {
  TensorType type;
  std::optional<std::vector<Dim>> values = std::nullopt;
  Tensor data = {};

  InferInput() = default;  // an omitted optional input
  InferInput(DType dtype, const std::vector<std::string>& dims) {
    std::vector<Dim> parsed;
    for (const std::string& text : dims) parsed.push_back(Dim::parse(text));
    type = {dtype, Shape(parsed)};
  }
  InferInput(const Tensor& tensor) : type{tensor.dtype(), Shape(tensor.dims())}, data(tensor) {  // NOLINT
    const bool whole = is_integer(tensor.dtype()) || tensor.dtype() == DType::BOOL;
    if (!whole || tensor.dims().rank() > 1 || tensor.count() > 1024) return;
    values.emplace();
    for (int64_t v : tensor.to_i64()) values->push_back(v);
  }
  bool present() const { return type.dtype != DType::UNDEFINED; }
};

// An int64 vector whose elements are known as expressions: known_values({"N", "3"}).
inline InferInput known_values(const std::vector<std::string>& texts) {
  InferInput in(DType::INT64, {std::to_string(texts.size())});
  in.values.emplace();
  for (const std::string& text : texts) in.values->push_back(Dim::parse(text));
  return in;
}

struct InferResult {
  std::vector<TensorType> types;
  std::vector<std::optional<std::vector<Dim>>> values;

  // "float32[N,3]"
  std::string type(size_t i = 0) const { return types.at(i).to_string(); }
  // "N,3"; "unknown" when the rule set no values.
  std::string value(size_t i = 0) const {
    if (!values.at(i).has_value()) return "unknown";
    std::string out;
    for (const Dim& d : *values.at(i)) out += (out.empty() ? "" : ",") + d.to_string();
    return out;
  }
};

class TestInferContext : public InferContext {
 public:
  TestInferContext(const Attributes& attrs, std::vector<InferInput> inputs, int num_outputs)
      : attrs_(attrs), inputs_(std::move(inputs)) {
    result_.types.resize(static_cast<size_t>(num_outputs));
    result_.values.resize(static_cast<size_t>(num_outputs));
  }
  const Attributes& attrs() const override { return attrs_; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const override { return i < num_inputs() && in(i).present(); }
  const TensorType& input(int i) const override { return in(i).type; }
  const Tensor* input_data(int i) const override { return in(i).data.defined() ? &in(i).data : nullptr; }
  const std::vector<Dim>* input_values(int i) const override { return in(i).values ? &*in(i).values : nullptr; }
  int num_outputs() const override { return static_cast<int>(result_.types.size()); }
  void set_output(int i, TensorType type) override { result_.types.at(static_cast<size_t>(i)) = std::move(type); }
  void set_output_values(int i, std::vector<Dim> values) override {
    result_.values.at(static_cast<size_t>(i)) = std::move(values);
  }
  Dim fresh_dim() override { return Dim::symbol("?" + std::to_string(next_++)); }
  const InferResult& result() const { return result_; }
  using InferContext::set_output;

 private:
  const InferInput& in(int i) const { return inputs_.at(static_cast<size_t>(i)); }
  const Attributes& attrs_;
  std::vector<InferInput> inputs_;
  InferResult result_;
  int next_ = 0;
};

class TestEvalContext : public EvalContext {
 public:
  TestEvalContext(const Attributes& attrs, const std::vector<Tensor>& inputs, int num_outputs)
      : attrs_(attrs), inputs_(inputs), outputs_(static_cast<size_t>(num_outputs)) {}
  const Attributes& attrs() const override { return attrs_; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const override { return i < num_inputs() && inputs_[static_cast<size_t>(i)].defined(); }
  const TensorView& input(int i) const override { return inputs_.at(static_cast<size_t>(i)).view(); }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  bool has_output(int i) const override { return i < num_outputs(); }
  TensorView output(int i, DType dtype, const Dims& dims) override {
    Tensor& out = outputs_.at(static_cast<size_t>(i));
    EXPECT_FALSE(out.defined()) << "output " << i << " asked for twice";
    out = Tensor(dtype, dims);
    // Poison: an element nobody writes must not pass for a zero.
    if (dtype != DType::STRING) std::memset(out.view().data, 0xcd, static_cast<size_t>(out.bytes()));
    return out.view();
  }
  void* scratch(size_t bytes) override {
    scratch_.emplace_back(DType::UINT8, Dims{static_cast<int64_t>(bytes)});
    return scratch_.back().view().data;
  }
  const std::vector<Tensor>& outputs() const { return outputs_; }

 private:
  const Attributes& attrs_;
  const std::vector<Tensor>& inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> scratch_;
};

inline void check_arity(const OpDef& def, int num_inputs, int num_outputs) {
  EXPECT_GE(num_inputs, def.min_inputs) << def.name;
  EXPECT_LE(num_inputs, def.max_inputs) << def.name;
  EXPECT_GE(num_outputs, def.min_outputs) << def.name;
  EXPECT_LE(num_outputs, def.max_outputs) << def.name;
}

// Runs the shape rule alone, with symbolic dims.
inline InferResult infer_op(const std::string& name, const AttrList& attrs, const std::vector<InferInput>& inputs,
                            int num_outputs = 1) {
  const OpDef& def = find_op(name);
  check_arity(def, static_cast<int>(inputs.size()), num_outputs);
  const Attributes attributes = make_attrs(attrs);
  TestInferContext context(attributes, inputs, num_outputs);
  def.infer(context);
  return context.result();
}

// The rule's type must fit what evaluate made; a dim that is still symbolic depends on data.
inline void check_against_infer(const std::string& name, const InferResult& inferred, size_t i, const Tensor& out) {
  const TensorType& type = inferred.types[i];
  EXPECT_EQ(dtype_name(type.dtype), dtype_name(out.dtype())) << name << " output " << i;
  if (!type.shape.ranked()) return;
  ASSERT_EQ(type.shape.rank(), out.dims().rank()) << name << " output " << i;
  for (int d = 0; d < type.shape.rank(); ++d) {
    if (type.shape[d].is_const()) {
      EXPECT_EQ(type.shape[d].value(), out.dims()[d]) << name << " output " << i << " dim " << d;
    }
  }
  if (!inferred.values[i].has_value()) return;
  const std::vector<int64_t> actual = out.to_i64();
  ASSERT_EQ(inferred.values[i]->size(), actual.size()) << name << " output " << i;
  for (size_t k = 0; k < actual.size(); ++k) {
    const Dim& value = (*inferred.values[i])[k];
    if (value.is_const()) {
      EXPECT_EQ(value.value(), actual[k]) << name << " output " << i << " value " << k;
    }
  }
}

// Runs one op. An undefined Tensor is an omitted optional input.
inline std::vector<Tensor> run_op(const std::string& name, const AttrList& attrs, const std::vector<Tensor>& inputs,
                                  int num_outputs = 1) {
  const OpDef& def = find_op(name);
  std::vector<InferInput> infer_inputs;
  for (const Tensor& t : inputs) infer_inputs.push_back(t.defined() ? InferInput(t) : InferInput());
  const InferResult inferred = infer_op(name, attrs, infer_inputs, num_outputs);
  const Attributes attributes = make_attrs(attrs);
  TestEvalContext context(attributes, inputs, num_outputs);
  def.evaluate(context);
  for (int i = 0; i < num_outputs; ++i) {
    const Tensor& out = context.outputs()[static_cast<size_t>(i)];
    EXPECT_TRUE(out.defined()) << name << " did not make output " << i;
    if (out.defined()) check_against_infer(name, inferred, static_cast<size_t>(i), out);
  }
  return context.outputs();
}

// Same dtype and dims, elements within tolerance * max(1, |expected|). NaN equals NaN, inf equals the same inf.
inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance = 1e-6) {
  ASSERT_EQ(dtype_name(actual.dtype()), dtype_name(expected.dtype()));
  ASSERT_EQ(actual.dims().to_string(), expected.dims().to_string());
  const std::vector<double> a = actual.to_f64();
  const std::vector<double> e = expected.to_f64();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(e[i])) {
      EXPECT_TRUE(std::isnan(a[i])) << "element " << i << " is " << a[i] << ", expected NaN";
    } else if (std::isinf(e[i])) {
      EXPECT_EQ(a[i], e[i]) << "element " << i;
    } else {
      EXPECT_NEAR(a[i], e[i], tolerance * std::max(1.0, std::fabs(e[i]))) << "element " << i;
    }
  }
}

// Same dtype, dims and element values, exactly.
inline void expect_equal(const Tensor& actual, const Tensor& expected) { expect_close(actual, expected, 0.0); }

// The Code that `f` throws; OK when it throws nothing.
template <typename F>
Code error_code_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::OK;
}

}  // namespace deepjit
