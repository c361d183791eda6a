// Optional, OptionalHasElement and OptionalGetElement. An optional is a tensor of no or one tensor.
#include "ops/common.h"
#include "ops/sequence/sequence.h"

namespace deepjit {

namespace {

// An empty optional says what it would hold by the attribute "element": the dtypes from the outside in, (float32) or
// (sequence, float32).
TensorType stated_element(const std::vector<int64_t>& dtypes, size_t at = 0) {
  const auto dtype =
      at < dtypes.size() && dtypes[at] > 0 && dtypes[at] < 256 ? static_cast<DType>(dtypes[at]) : DType::UNDEFINED;
  if (dtype == DType::UNDEFINED || dtype == DType::OPTIONAL || dtype_name(dtype) == "unknown") {
    throw Error(Code::ATTRIBUTE, "Optional: without an input the type of its element must be given");
  }
  if (dtype != DType::SEQUENCE) return {dtype, Shape()};
  return {dtype, Shape(std::vector<Dim>{Dim::symbol("?0")}),
          std::make_shared<const TensorType>(stated_element(dtypes, at + 1))};
}

void infer_optional(InferContext& ctx) {
  if (ctx.has_input(0)) {
    expect_type(ctx, "Optional", 0, ctx.dtype(0) != DType::OPTIONAL, "a tensor or a sequence");
    return ctx.set_output(0, collection_type(DType::OPTIONAL, Dim(1), ctx.input(0)));
  }
  ctx.set_output(0, collection_type(DType::OPTIONAL, Dim(0), stated_element(ctx.attrs().get_ints("element"))));
}

void evaluate_optional(EvalContext& ctx) {
  const TensorView out = ctx.output(0, DType::OPTIONAL, {ctx.has_input(0) ? 1 : 0});
  if (ctx.has_input(0)) out.as<Tensor>()[0] = owned_copy(ctx.input(0));
}

void infer_has_element(InferContext& ctx) {
  ctx.set_output(0, DType::BOOL, Shape(std::vector<Dim>{}));
  if (!ctx.has_input(0)) return ctx.set_output_values(0, {Dim(0)});
  if (ctx.dtype(0) != DType::OPTIONAL) return ctx.set_output_values(0, {Dim(1)});
  const Shape& shape = ctx.shape(0);
  if (shape.ranked() && shape[0].is_const()) ctx.set_output_values(0, {shape[0]});
}

void evaluate_has_element(EvalContext& ctx) {
  const bool has = ctx.has_input(0) && (ctx.dtype(0) != DType::OPTIONAL || ctx.input(0).count() > 0);
  *ctx.output(0, DType::BOOL, {}).as<uint8_t>() = has ? 1 : 0;
}

void infer_get_element(InferContext& ctx) {
  ctx.set_output(0, ctx.dtype(0) == DType::OPTIONAL ? element_type(ctx, 0) : ctx.input(0));
}

void evaluate_get_element(EvalContext& ctx) {
  TensorView from = ctx.input(0);
  if (from.dtype == DType::OPTIONAL) {
    if (from.count() == 0) throw Error(Code::RUN_VALUE, "OptionalGetElement: the optional is empty");
    from = from.as<Tensor>()[0].view();
  }
  copy_elements(from, ctx.output(0, from.dtype, from.dims));
}

}  // namespace

void add_optional_ops(OpRegistry& registry) {
  registry.add({.name = "Optional", .min_inputs = 0, .infer = infer_optional, .evaluate = evaluate_optional});
  registry.add(
      {.name = "OptionalHasElement", .min_inputs = 0, .infer = infer_has_element, .evaluate = evaluate_has_element});
  registry.add({.name = "OptionalGetElement", .infer = infer_get_element, .evaluate = evaluate_get_element});
}

}  // namespace deepjit
