#include "precision/op_rules.h"

#include <array>
#include <map>

#include "passes/edit.h"

namespace deepjit {

namespace {

using Kind = OpPrecision;

struct Group {
  OpRule rule;
  std::string_view ops;  // names between blanks
};

constexpr std::string_view kRange = "its results may leave 16 bits' range";
constexpr std::string_view kLongSum = "sums many values";

constexpr std::array kGroups = {
    Group{{Kind::PRODUCT, "convolution"}, "Conv ConvTranspose deepjit.Conv deepjit.ConvTranspose"},
    Group{{Kind::PRODUCT, "product"}, "MatMul Gemm Einsum deepjit.MatMul"},
    Group{{Kind::PRODUCT, "attention"}, "Attention"},
    Group{{Kind::NORM, "norm, float32 inside", true},
          "LayerNormalization RMSNormalization InstanceNormalization GroupNormalization BatchNormalization Softmax"},
    Group{{Kind::NORM, "norm, float32 inside"}, "LogSoftmax"},
    Group{{Kind::PLAIN, "pointwise"},
          "Add Sub Mul Div Neg Abs Min Max Sum Mean Relu LeakyRelu PRelu Elu Selu Celu Gelu HardSwish Swish Mish "
          "Softplus "
          "ThresholdedRelu Shrink Sqrt Where Clip"},
    Group{{Kind::PLAIN, "pointwise", true}, "Sigmoid Tanh HardSigmoid Softsign Erf Sign"},
    Group{{Kind::PLAIN, "mean or extremum, float32 inside"}, "ReduceMean ReduceMax ReduceMin"},
    Group{{Kind::PLAIN, "pool"},
          "MaxPool AveragePool GlobalAveragePool GlobalMaxPool deepjit.MaxPool deepjit.AveragePool "
          "deepjit.GlobalAveragePool"},
    Group{
        {Kind::MOVE, "moves values"},
        "Reshape Flatten Squeeze Unsqueeze Identity Transpose Slice Concat Split Pad Expand Tile Gather GatherElements "
        "GatherND DepthToSpace SpaceToDepth Trilu ScatterND ScatterElements ReverseSequence Resize CenterCropPad "
        "Compress Dropout"},
    Group{{Kind::MOVE, "makes values"}, "ConstantOfShape EyeLike"},
    Group{{Kind::SHAPE, "reads a shape"}, "Shape Size"},
    Group{{Kind::KEEP, kRange, true}, "Exp"},
    Group{{Kind::KEEP, kRange}, "Pow Reciprocal Sinh Cosh Tan Asinh Acosh Atanh ReduceProd CumProd Det"},
    Group{{Kind::KEEP, "small differences of its operand count", true}, "Log Sin Cos Asin Acos Atan"},
    Group{{Kind::KEEP, kLongSum},
          "ReduceSum ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp CumSum LpPool GlobalLpPool "
          "LpNormalization MeanVarianceNormalization LRN"},
    Group{{Kind::KEEP, "orders near values"},
          "TopK ArgMax ArgMin NonMaxSuppression Unique Hardmax Equal Less Greater LessOrEqual GreaterOrEqual"},
    Group{{Kind::KEEP, "whole numbers"}, "Floor Ceil Round Mod"},
    Group{{Kind::KEEP, "a state goes through many steps"}, "LSTM GRU RNN"},
    Group{{Kind::KEEP, "coordinates"}, "GridSample RoiAlign AffineGrid MaxRoiPool DeformConv Range"},
    Group{{Kind::KEEP, "control flow"}, "If Loop Scan"},
    Group{{Kind::KEEP, "a cast of the model"}, "Cast CastLike"},
    Group{{Kind::KEEP, "quantized"}, "QuantizeLinear DequantizeLinear DynamicQuantizeLinear"},
};

std::map<std::string_view, OpRule> make_table() {
  std::map<std::string_view, OpRule> table;
  for (const Group& group : kGroups) {
    std::string_view rest = group.ops;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      table.emplace(rest.substr(0, end), group.rule);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return table;
}

// Elements that go into one result of a reduction; nothing when that is not known.
std::optional<int64_t> reduced_count(const Node& node) {
  const Value* x = node.input(0);
  if (!ranked(x)) return std::nullopt;
  const auto axes = node.input(1) != nullptr ? known_ints(node.input(1)) : std::vector<int64_t>();
  if (!axes || axes->empty()) return std::nullopt;
  int64_t count = 1;
  for (int64_t axis : *axes) {
    const Dim& d = x->type.shape[static_cast<int>(normalize_axis(axis, x->type.shape.rank()))];
    if (!d.is_const()) return std::nullopt;
    count = checked_mul(count, d.value());
  }
  return count;
}

constexpr int64_t kFewTerms = 64;

}  // namespace

const OpRule& op_rule(std::string_view op) {
  static const std::map<std::string_view, OpRule> table = make_table();
  static const OpRule none;
  const auto it = table.find(op);
  return it == table.end() ? none : it->second;
}

OpRule node_rule(const Node& node) {
  const OpRule& rule = op_rule(node.op);
  if (node.op == "Mul" && node.input(0) == node.input(1)) return {Kind::KEEP, "a square may leave 16 bits' range"};
  if (node.op == "Div" && node.input(1) != nullptr && !node.input(1)->is_constant()) {
    return {Kind::KEEP, "divides by a computed value"};
  }
  if (node.op == "ReduceSum") {
    const auto count = reduced_count(node);
    if (count && *count <= kFewTerms) return {Kind::PLAIN, "a sum of few values, float32 inside"};
  }
  if ((node.op == "ScatterND" || node.op == "ScatterElements") &&
      node.attrs.get_string("reduction", "none") != "none") {
    return {Kind::KEEP, kLongSum};
  }
  if (node.op == "Clip" && scalar_of(node.input(1)) && scalar_of(node.input(2))) {
    return {rule.kind, rule.what,
            std::abs(*scalar_of(node.input(1))) < 3e4 && std::abs(*scalar_of(node.input(2))) < 3e4};
  }
  return rule;
}

bool loss_matters(const Node& node, size_t i) {
  const Kind kind = op_rule(node.op).kind;
  if (kind == Kind::PRODUCT || kind == Kind::NORM) return i < 2;
  const bool adds = node.op == "Add" || node.op == "Sub" || node.op == "Sum";
  return !adds || node.inputs[i]->constant.count() == 1;
}

bool is_data_input(const Node& node, size_t i) { return node.op != "Resize" || i == 0; }

}  // namespace deepjit
