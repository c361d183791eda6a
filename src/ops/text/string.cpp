// StringConcat, StringSplit and RegexFullMatch.
#include <re2/re2.h>

#include <algorithm>

#include "ops/common.h"
#include "ops/pointwise/pointwise.h"
#include "ops/text/text.h"

namespace deepjit {

namespace {

void expect_strings(const InferContext& ctx, std::string_view op, int i) {
  expect_type(ctx, op, i, ctx.dtype(i) == DType::STRING, "a string tensor");
}

void infer_concat(InferContext& ctx) {
  expect_strings(ctx, "StringConcat", 0);
  expect_strings(ctx, "StringConcat", 1);
  ctx.set_output(0, DType::STRING, broadcast_inputs(ctx));
}

void evaluate_concat(EvalContext& ctx) {
  const Dims dims = broadcast_dims(ctx.dims(0), ctx.dims(1));
  std::string* out = ctx.output(0, DType::STRING, dims).as<std::string>();
  const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1)});
  const std::string* a = ctx.data<std::string>(0);
  const std::string* b = ctx.data<std::string>(1);
  for_each_row(plan, [&](int64_t o, const RowOffsets& at) {
    for (int64_t i = 0; i < plan.inner(); ++i) {
      out[o + i] = a[at[0] + (plan.moves(0) ? i : 0)] + b[at[1] + (plan.moves(1) ? i : 0)];
    }
  });
}

// ---- StringSplit ----------------------------------------------------------------------------------

using Pieces = std::vector<std::string_view>;

constexpr std::string_view kBlanks = " \t\n\v\f\r";

// Runs of blanks separate; those at the start are dropped, and those at the end of what is not split any further stay.
Pieces split_at_blanks(std::string_view text, int64_t most) {
  Pieces pieces;
  size_t at = text.find_first_not_of(kBlanks);
  while (at != std::string_view::npos) {
    const size_t end =
        static_cast<int64_t>(pieces.size()) == most ? std::string_view::npos : text.find_first_of(kBlanks, at);
    pieces.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    at = end == std::string_view::npos ? end : text.find_first_not_of(kBlanks, end);
  }
  return pieces;
}

Pieces split_at(std::string_view text, std::string_view delimiter, int64_t most) {
  Pieces pieces;
  size_t at = 0;
  while (true) {
    const size_t end = static_cast<int64_t>(pieces.size()) == most ? std::string_view::npos : text.find(delimiter, at);
    pieces.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) return pieces;
    at = end + delimiter.size();
  }
}

void infer_split(InferContext& ctx) {
  expect_strings(ctx, "StringSplit", 0);
  const Shape& in = ctx.shape(0);
  if (ctx.num_outputs() > 1) ctx.set_output(1, DType::INT64, in);
  if (!in.ranked()) return ctx.set_output(0, DType::STRING, Shape());
  std::vector<Dim> dims = in.dims();
  dims.push_back(ctx.fresh_dim());
  if (dims.size() > static_cast<size_t>(kMaxRank)) throw Error(Code::LIMIT, "StringSplit: rank above 16");
  ctx.set_output(0, DType::STRING, Shape(std::move(dims)));
}

void evaluate_split(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::string delimiter = ctx.attrs().get_string("delimiter", "");
  const int64_t most = ctx.attrs().get_int("maxsplit", -1);
  std::vector<Pieces> all;
  int64_t width = 0;
  for (int64_t i = 0; i < in.count(); ++i) {
    const std::string& text = in.as<std::string>()[i];
    all.push_back(delimiter.empty() ? split_at_blanks(text, most) : split_at(text, delimiter, most));
    width = std::max(width, static_cast<int64_t>(all.back().size()));
  }
  if (ctx.has_output(0)) {
    Dims dims = in.dims;
    dims.push_back(width);
    std::string* out = ctx.output(0, DType::STRING, dims).as<std::string>();
    for (size_t i = 0; i < all.size(); ++i) {
      std::copy(all[i].begin(), all[i].end(), out + static_cast<int64_t>(i) * width);  // the rest stays empty
    }
  }
  if (!ctx.has_output(1)) return;
  int64_t* counts = ctx.output(1, DType::INT64, in.dims).as<int64_t>();
  for (size_t i = 0; i < all.size(); ++i) counts[i] = static_cast<int64_t>(all[i].size());
}

// ---- RegexFullMatch -------------------------------------------------------------------------------

// RE2 takes time linear in the text, whatever the pattern.
class Pattern {
 public:
  explicit Pattern(const Attributes& attrs) : regex_(attrs.get_string("pattern", ""), options()) {
    if (!attrs.has("pattern")) throw Error(Code::ATTRIBUTE, "RegexFullMatch: the pattern is missing");
    if (!regex_.ok()) throw Error(Code::ATTRIBUTE, "RegexFullMatch: bad pattern: " + regex_.error());
  }
  bool matches(const std::string& text) const { return RE2::FullMatch(text, regex_); }

 private:
  static RE2::Options options() {
    RE2::Options options;
    options.set_log_errors(false);
    return options;
  }
  RE2 regex_;
};

void infer_regex(InferContext& ctx) {
  expect_strings(ctx, "RegexFullMatch", 0);
  const Pattern pattern(ctx.attrs());
  ctx.set_output(0, DType::BOOL, ctx.shape(0));
}

void evaluate_regex(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const Pattern pattern(ctx.attrs());
  uint8_t* out = ctx.output(0, DType::BOOL, in.dims).as<uint8_t>();
  for (int64_t i = 0; i < in.count(); ++i) out[i] = pattern.matches(in.as<std::string>()[i]) ? 1 : 0;
}

}  // namespace

void add_string_ops(OpRegistry& registry) {
  registry.add(
      {.name = "StringConcat", .min_inputs = 2, .max_inputs = 2, .infer = infer_concat, .evaluate = evaluate_concat});
  registry.add({.name = "StringSplit", .max_outputs = 2, .infer = infer_split, .evaluate = evaluate_split});
  registry.add({.name = "RegexFullMatch", .infer = infer_regex, .evaluate = evaluate_regex});
}

void add_text_ops(OpRegistry& registry) {
  add_string_ops(registry);
  add_string_normalizer_ops(registry);
  add_tfidf_ops(registry);
}

}  // namespace deepjit
