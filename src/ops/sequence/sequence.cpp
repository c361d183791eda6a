// SequenceConstruct, SequenceEmpty, SequenceAt, SequenceInsert, SequenceErase, SequenceLength.
//
// A sequence is copied by its handles: the tensors inside are shared, so only a tensor that enters or leaves a
// sequence is copied element by element.
#include "ops/sequence/sequence.h"

#include <algorithm>

#include "ops/common.h"

namespace deepjit {

namespace {

void expect_sequence(const InferContext& ctx, std::string_view op) {
  expect_type(ctx, op, 0, ctx.dtype(0) == DType::SEQUENCE, "a sequence");
  check_internal(ctx.input(0).element != nullptr, "a sequence without an element type");
}

// The number of elements as the compiler knows it.
Dim length_of(InferContext& ctx) { return ctx.shape(0).ranked() ? ctx.shape(0)[0] : ctx.fresh_dim(); }

// The length after adding or removing one; unknown unless it is constant.
Dim changed_length(InferContext& ctx, int64_t by) {
  const Dim length = length_of(ctx);
  return length.is_const() && length.value() + by >= 0 ? Dim(length.value() + by) : ctx.fresh_dim();
}

void expect_position(const InferContext& ctx, std::string_view op, int i) {
  if (!ctx.has_input(i)) return;
  expect_type(ctx, op, i, ctx.dtype(i) == DType::INT32 || ctx.dtype(i) == DType::INT64, "int32 or int64");
}

void infer_construct(InferContext& ctx) {
  const FreshDim fresh = [&] { return ctx.fresh_dim(); };
  TensorType element = ctx.input(0);
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    element = common_type(element, ctx.input(i), fresh, "SequenceConstruct: inputs 0 and " + std::to_string(i));
  }
  ctx.set_output(0, collection_type(DType::SEQUENCE, Dim(ctx.num_inputs()), std::move(element)));
}

void evaluate_construct(EvalContext& ctx) {
  Tensor* out = ctx.output(0, DType::SEQUENCE, {ctx.num_inputs()}).as<Tensor>();
  for (int i = 0; i < ctx.num_inputs(); ++i) out[i] = owned_copy(ctx.input(i));
}

void infer_empty(InferContext& ctx) {
  const DType dtype = dtype_attribute(ctx.attrs(), "dtype", DType::FLOAT32);
  if (is_collection(dtype)) throw Error(Code::ATTRIBUTE, "SequenceEmpty: a sequence holds tensors");
  ctx.set_output(0, collection_type(DType::SEQUENCE, Dim(0), {dtype, Shape()}));
}

void evaluate_empty(EvalContext& ctx) { ctx.output(0, DType::SEQUENCE, {0}); }

// The element number that input i names, counted from the end when negative; `limit` elements can be named.
int64_t position(EvalContext& ctx, std::string_view op, int i, int64_t length, int64_t limit) {
  const std::vector<int64_t> values = ctx.ints(i);
  if (values.size() != 1) throw Error(Code::SHAPE_MISMATCH, std::string(op) + ": the position must have one element");
  const int64_t at = values[0] < 0 ? values[0] + length : values[0];
  if (at < 0 || at >= limit) {
    throw Error(Code::INDEX_RANGE, std::string(op) + ": position " + std::to_string(values[0]) +
                                       " is out of range for a sequence of " + std::to_string(length));
  }
  return at;
}

void infer_at(InferContext& ctx) {
  expect_sequence(ctx, "SequenceAt");
  expect_position(ctx, "SequenceAt", 1);
  ctx.set_output(0, element_type(ctx, 0));
}

void evaluate_at(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const Tensor& element = in.as<Tensor>()[position(ctx, "SequenceAt", 1, in.count(), in.count())];
  copy_elements(element.view(), ctx.output(0, element.dtype(), element.dims()));
}

void infer_insert(InferContext& ctx) {
  expect_sequence(ctx, "SequenceInsert");
  expect_position(ctx, "SequenceInsert", 2);
  TensorType element = common_type(
      *ctx.input(0).element, ctx.input(1), [&] { return ctx.fresh_dim(); }, "SequenceInsert: sequence and tensor");
  ctx.set_output(0, collection_type(DType::SEQUENCE, changed_length(ctx, 1), std::move(element)));
}

void evaluate_insert(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int64_t n = in.count();
  const int64_t at = ctx.has_input(2) ? position(ctx, "SequenceInsert", 2, n, n + 1) : n;
  const Tensor* from = in.as<Tensor>();
  Tensor* out = ctx.output(0, DType::SEQUENCE, {n + 1}).as<Tensor>();
  std::copy_n(from, at, out);
  out[at] = owned_copy(ctx.input(1));
  std::copy_n(from + at, n - at, out + at + 1);
}

void infer_erase(InferContext& ctx) {
  expect_sequence(ctx, "SequenceErase");
  expect_position(ctx, "SequenceErase", 1);
  ctx.set_output(0, collection_type(DType::SEQUENCE, changed_length(ctx, -1), *ctx.input(0).element));
}

void evaluate_erase(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int64_t n = in.count();
  if (n == 0) throw Error(Code::INDEX_RANGE, "SequenceErase: the sequence is empty");
  const int64_t at = ctx.has_input(1) ? position(ctx, "SequenceErase", 1, n, n) : n - 1;
  const Tensor* from = in.as<Tensor>();
  Tensor* out = ctx.output(0, DType::SEQUENCE, {n - 1}).as<Tensor>();
  std::copy_n(from, at, out);
  std::copy_n(from + at + 1, n - 1 - at, out + at);
}

void infer_length(InferContext& ctx) {
  expect_sequence(ctx, "SequenceLength");
  ctx.set_output(0, DType::INT64, Shape(std::vector<Dim>{}));
  const Dim length = length_of(ctx);
  if (length.is_const()) ctx.set_output_values(0, {length});
}

void evaluate_length(EvalContext& ctx) { *ctx.output(0, DType::INT64, {}).as<int64_t>() = ctx.input(0).count(); }

}  // namespace

void add_sequence_basic_ops(OpRegistry& registry) {
  registry.add(
      {.name = "SequenceConstruct", .max_inputs = kMany, .infer = infer_construct, .evaluate = evaluate_construct});
  registry.add(
      {.name = "SequenceEmpty", .min_inputs = 0, .max_inputs = 0, .infer = infer_empty, .evaluate = evaluate_empty});
  registry.add({.name = "SequenceAt", .min_inputs = 2, .max_inputs = 2, .infer = infer_at, .evaluate = evaluate_at});
  registry.add(
      {.name = "SequenceInsert", .min_inputs = 2, .max_inputs = 3, .infer = infer_insert, .evaluate = evaluate_insert});
  registry.add({.name = "SequenceErase", .max_inputs = 2, .infer = infer_erase, .evaluate = evaluate_erase});
  registry.add({.name = "SequenceLength", .infer = infer_length, .evaluate = evaluate_length});
}

}  // namespace deepjit
