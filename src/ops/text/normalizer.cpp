// StringNormalizer: drops stop words, then changes the case of what is left.
#include <unordered_set>

#include "ops/common.h"
#include "ops/text/letter_case.h"
#include "ops/text/text.h"

namespace deepjit {

namespace {

std::string with_case(const std::string& text, const std::string& action) {
  if (action == "LOWER") return lower_case(text);
  if (action == "UPPER") return upper_case(text);
  return text;
}

std::string case_action(const Attributes& attrs) {
  const std::string action = attrs.get_string("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    throw Error(Code::ATTRIBUTE, "StringNormalizer: case_change_action \"" + action + "\" is unknown");
  }
  return action;
}

void check_dims(int rank, bool one_row, const std::string& shape) {
  if (rank == 1 || (rank == 2 && one_row)) return;
  throw Error(Code::SHAPE_MISMATCH, "StringNormalizer: the shape must be [C] or [1, C], got " + shape);
}

void infer_normalizer(InferContext& ctx) {
  expect_type(ctx, "StringNormalizer", 0, ctx.dtype(0) == DType::STRING, "a string tensor");
  case_action(ctx.attrs());
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return ctx.set_output(0, DType::STRING, Shape());
  check_dims(in.rank(), in.rank() > 0 && (!in[0].is_const() || in[0] == 1), in.to_string());
  std::vector<Dim> dims(static_cast<size_t>(in.rank()), Dim(1));
  dims.back() = ctx.fresh_dim();
  ctx.set_output(0, DType::STRING, Shape(std::move(dims)));
}

// Words that are equal but for their case are equal in lower case.
std::vector<std::string> kept_words(EvalContext& ctx) {
  const bool exact = ctx.attrs().get_int("is_case_sensitive", 0) != 0;
  const auto key = [&](const std::string& word) { return exact ? word : lower_case(word); };
  std::unordered_set<std::string> stops;
  for (const std::string& word : ctx.attrs().get_strings("stopwords")) stops.insert(key(word));
  std::vector<std::string> kept;
  const TensorView& in = ctx.input(0);
  for (int64_t i = 0; i < in.count(); ++i) {
    const std::string& word = in.as<std::string>()[i];
    if (stops.empty() || stops.count(key(word)) == 0) kept.push_back(word);
  }
  return kept;
}

void evaluate_normalizer(EvalContext& ctx) {
  const Dims& in = ctx.dims(0);
  check_dims(in.rank(), in.rank() > 0 && in[0] == 1, in.to_string());
  const std::string action = case_action(ctx.attrs());
  std::vector<std::string> words = kept_words(ctx);
  if (words.empty()) words.emplace_back();  // ONNX asks for one empty string
  Dims dims = in;
  dims.back() = static_cast<int64_t>(words.size());
  std::string* out = ctx.output(0, DType::STRING, dims).as<std::string>();
  for (size_t i = 0; i < words.size(); ++i) out[i] = with_case(words[i], action);
}

}  // namespace

void add_string_normalizer_ops(OpRegistry& registry) {
  registry.add({.name = "StringNormalizer", .infer = infer_normalizer, .evaluate = evaluate_normalizer});
}

}  // namespace deepjit
