// The rules of the why-ledger: why an edge between two ops is a boundary between two kernels.
//
// The table below is the only source: it makes the enum, the stable names that the engine file, the command line and
// Python show, and docs/why.md. A refusal in the compiler names its rule where it is decided.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

namespace deepjit {

// X(NAME, "stable-name", what the rule says, the smallest change that lifts it)
#define DEEPJIT_WHY_TABLE(X)                                                                                          \
  X(OP_NOT_GENERATED, "op-not-generated", "the operator has no rule for generated kernels",                           \
    "write it with operators that have one, see docs/codegen.md")                                                     \
  X(TYPE_NOT_GENERATED, "type-not-generated", "the operator is not generated for this element type",                  \
    "compute in float32")                                                                                             \
  X(SEVERAL_OUTPUTS, "several-outputs", "the operator is generated only for its first output, and more are read",     \
    "compute the other outputs with ReduceMean and its like")                                                         \
  X(NOTHING_REDUCED, "nothing-reduced", "the operator has no dims to go over", "leave the operator out")              \
  X(AXES_NOT_CONSTANT, "axes-not-constant", "the axes are data that only a run tells", "give the axes as a constant") \
  X(EXPONENT, "exponent", "powers are generated only for a few constant exponents",                                   \
    "write the power as Exp(exponent * Log(x)), or with Sqrt and Reciprocal")                                         \
  X(UNKNOWN_RANK, "unknown-rank", "the number of dims of an operand is not known at build",                           \
    "declare the shape of the value at export")                                                                       \
  X(CONTROL_FLOW, "control-flow", "If, Loop and Scan run their bodies as steps of their own",                         \
    "move the work into the body, or make the condition or trip count a constant")                                    \
  X(SHAPE_ARITHMETIC, "shape-arithmetic", "sizes are computed when shapes are bound, not by kernels",                 \
    "compute sizes from shapes only, not from data")                                                                  \
  X(DATA_DEPENDENT_SHAPE, "data-dependent-shape", "the size of the value depends on data, so no kernel is laid out",  \
    "mask with Where over the whole tensor instead of selecting elements")                                            \
  X(LIBRARY_INPUT, "library-input", "a library runs the convolution or product and reads its operands from memory",   \
    "move the work behind the convolution or product, where it can become its epilogue")                              \
  X(LIBRARY_EPILOGUE, "library-epilogue", "the library's epilogue does not take the operator",                        \
    "use an activation, a number, or a tensor of the result's shape right behind the convolution or product")         \
  X(LIBRARY_SHARED, "library-shared", "the result of a convolution or product is read more than once",                \
    "let one node read it")                                                                                           \
  X(LIBRARY_PAIR, "library-pair",                                                                                     \
    "two convolutions or products follow each other: each reads whole rows of the other",                             \
    "multiply constant weights into one where nothing stands between")                                                \
  X(DIMS_NOT_EQUAL, "dims-not-equal", "two dims that must be one cannot be told equal",                               \
    "give both dims the same name at export, or make them static")                                                    \
  X(RANK_ABOVE_RESULT, "rank-above-result", "an operand has more dims than the result", "squeeze the operand first")  \
  X(REDUCTIONS_DIFFER, "reductions-differ", "two reductions go over different axes", "reduce over the same axes")     \
  X(ROW_CUT, "row-cut", "rows that are reduced are read only in part, or in another order",                           \
    "cut or pad the rows before the reduction, or store its result")                                                  \
  X(RECOMPUTED, "recomputed", "a value would be computed again at several places of the kernel",                      \
    "nothing needs doing: storing the value costs less")                                                              \
  X(VIEW_NOT_CONSTANT, "view-not-constant", "what a Slice, Pad or Gather takes is only known at run time",            \
    "give its begins, widths or indices as constants")                                                                \
  X(AXIS_TWICE, "axis-twice", "one axis would be walked by two dims of a value",                                      \
    "keep the Transpose or Unsqueeze out of the chain")                                                               \
  X(NO_COMMON_BOX, "no-common-box", "no value has all the dims of the others",                                        \
    "broadcast one of the values to the full shape first")                                                            \
  X(SMALLER_OUTPUT, "smaller-output", "a value that is read outside is smaller than what the kernel walks",           \
    "read the value where it is made, or do not make it an output")                                                   \
  X(SIZE_UNTOLD, "size-untold", "no operand tells the size of a dim", "make the dim static")                          \
  X(ROW_NOT_DENSE, "row-not-dense", "the reduced axes do not lie together in memory",                                 \
    "move the Transpose before the reduction's producer")                                                             \
  X(DIMS_REGROUPED, "dims-regrouped", "a view merges or splits dims in a way that is no walk along them",             \
    "move the Reshape to the start or the end of the chain")                                                          \
  X(STEP_BETWEEN, "step-between", "another step must run in the middle of the kernel",                                \
    "move the other step before or behind the chain")                                                                 \
  X(REGION_TOO_LARGE, "region-too-large", "the kernel would have more operators than a kernel may",                   \
    "nothing needs doing: the work of one launch is large already")                                                   \
  X(FUSION_OFF, "fusion-off", "regions are switched off, or the level is below 2",                                    \
    "build with -O2 or -O3 and without --disable regions")                                                            \
  X(NOT_TUNED, "not-tuned", "nothing was measured, so the region runs step by step", "build without --no-tune")       \
  X(NOT_REACHED, "not-reached", "the time for tuning ended before the region was measured",                           \
    "raise --build-budget, or use --tune-cache")                                                                      \
  X(NOT_FASTER, "not-faster", "the region's kernel was not faster than its steps",                                    \
    "nothing needs doing; --force-tactic llvm takes the kernel all the same")                                         \
  X(KERNEL_WRONG, "kernel-wrong", "the region's kernel did not agree with the reference",                             \
    "raise --kernel-tolerance if the error is acceptable")                                                            \
  X(NO_KERNEL, "no-kernel", "no provider makes a kernel of the region at these shapes",                               \
    "tune at other shapes: --range")                                                                                  \
  X(TACTIC_FORCED, "tactic-forced", "another tactic was asked for", "build without --force-tactic")                   \
  X(DEVICE_LIMIT, "device-limit", "this device does not run the kernel", "build for another device")

enum class Why {
  NONE,
#define DEEPJIT_X(name, id, rule, fix) name,
  DEEPJIT_WHY_TABLE(DEEPJIT_X)
#undef DEEPJIT_X
};

struct WhyRule {
  const char* id;    // "dims-not-equal"; stable
  const char* rule;  // a sentence
  const char* fix;   // the smallest change that lifts it, where nothing more concrete is known
};

inline constexpr WhyRule kWhyRules[] = {{"none", "", ""},
#define DEEPJIT_X(name, id, rule, fix) {id, rule, fix},
                                        DEEPJIT_WHY_TABLE(DEEPJIT_X)
#undef DEEPJIT_X
};

inline const WhyRule& why_rule(Why why) { return kWhyRules[static_cast<size_t>(why)]; }

inline std::optional<Why> parse_why(std::string_view id) {
  for (size_t i = 1; i < std::size(kWhyRules); ++i) {
    if (id == kWhyRules[i].id) return static_cast<Why>(i);
  }
  return std::nullopt;
}

}  // namespace deepjit
