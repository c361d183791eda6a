// DJ141, DJ142: operators that an old opset, or a downgrade, broke into pieces.
#include <cmath>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

constexpr int kDepth = 6;

bool near(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b); }

// A value as a number times other values: what Mul, Div by a number and Pow by a small whole number make.
struct Product {
  double factor = 1;
  std::vector<std::string> values;
  Nodes nodes;

  size_t times(const std::string& value) const {
    return static_cast<size_t>(std::count(values.begin(), values.end(), value));
  }
};

class Pieces {
 public:
  Pieces(const ModelView& model, const GraphView& graph) : model_(model), graph_(graph) {}

  Product product(const std::string& value) const {
    Product out;
    multiply(value, 1, kDepth, out);
    return out;
  }

  // The other operand of a two-operand node whose one operand is a number near `number`.
  std::optional<std::string> beside(const onnx::NodeProto* node, const char* op, double number) const {
    if (!is(node, op) || node->input_size() != 2) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      const auto scalar = model_.scalar(graph_, input_of(*node, i));
      if (scalar && near(*scalar, number)) return input_of(*node, 1 - i);
    }
    return std::nullopt;
  }

  // x when `value` is 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
  struct Curve {
    std::string x;
    bool tanh = false;
    Nodes nodes;
  };
  std::optional<Curve> gelu_curve(const std::string& value) const {
    const onnx::NodeProto* add = graph_.producer(value);
    const auto bent = beside(add, "Add", 1);
    if (!bent) return std::nullopt;
    const onnx::NodeProto* curve = graph_.producer(*bent);
    if (is(curve, "Erf")) {
      const Product arg = product(input_of(*curve, 0));
      if (arg.values.size() != 1 || !near(arg.factor, std::sqrt(0.5))) return std::nullopt;
      Curve out{arg.values[0], false, arg.nodes};
      out.nodes.insert(out.nodes.end(), {curve, add});
      return out;
    }
    if (!is(curve, "Tanh")) return std::nullopt;
    return tanh_curve(curve, add);
  }

 private:
  void multiply(const std::string& value, double sign, int depth, Product& out) const {
    if (const auto number = model_.scalar(graph_, value)) {
      out.factor *= sign > 0 ? *number : 1 / *number;
      return;
    }
    const onnx::NodeProto* node = graph_.producer(value);
    if (depth > 0 && is(node, "Mul") && node->input_size() == 2) {
      out.nodes.push_back(node);
      multiply(input_of(*node, 0), 1, depth - 1, out);
      multiply(input_of(*node, 1), 1, depth - 1, out);
      return;
    }
    if (depth > 0 && is(node, "Div") && node->input_size() == 2 && model_.scalar(graph_, input_of(*node, 1))) {
      out.nodes.push_back(node);
      multiply(input_of(*node, 0), 1, depth - 1, out);
      multiply(input_of(*node, 1), -1, depth - 1, out);
      return;
    }
    if (depth > 0 && is(node, "Pow")) {
      const auto power = model_.scalar(graph_, input_of(*node, 1));
      if (power && (*power == 2 || *power == 3)) {
        out.nodes.push_back(node);
        for (int i = 0; i < static_cast<int>(*power); ++i) multiply(input_of(*node, 0), 1, depth - 1, out);
        return;
      }
    }
    out.values.push_back(value);
  }

  std::optional<Curve> tanh_curve(const onnx::NodeProto* curve, const onnx::NodeProto* add) const {
    const Product outer = product(input_of(*curve, 0));
    if (outer.values.size() != 1 || !near(outer.factor, std::sqrt(2 / M_PI))) return std::nullopt;
    const onnx::NodeProto* sum = graph_.producer(outer.values[0]);
    if (!is(sum, "Add") || sum->input_size() != 2) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      const std::string& x = input_of(*sum, i);
      const Product cube = product(input_of(*sum, 1 - i));
      if (!near(cube.factor, 0.044715) || cube.values.size() != 3 || cube.times(x) != 3) continue;
      Curve out{x, true, outer.nodes};
      out.nodes.push_back(sum);
      out.nodes.insert(out.nodes.end(), cube.nodes.begin(), cube.nodes.end());
      out.nodes.insert(out.nodes.end(), {curve, add});
      return out;
    }
    return std::nullopt;
  }

  const ModelView& model_;
  const GraphView& graph_;
};

// The pieces of a layer normalisation, from its division on.
struct Norm {
  std::string x;
  std::vector<int64_t> axes;
  double epsilon = 0;
  std::string scale, bias;  // constants, or empty
  std::string result;
  Nodes nodes;
};

std::optional<std::vector<int64_t>> mean_axes(const ModelView& model, const GraphView& graph,
                                              const onnx::NodeProto* node) {
  if (!is(node, "ReduceMean") || int_attribute(*node, "keepdims", 1) == 0) return std::nullopt;
  if (auto axes = ints_attribute(*node, "axes")) return axes;
  return model.integers(graph, input_of(*node, 1));
}

// d when `value` is d * d.
std::optional<std::string> squared(const Pieces& pieces, const std::string& value, Nodes& nodes) {
  const Product p = pieces.product(value);
  if (p.values.size() != 2 || p.values[0] != p.values[1] || !near(p.factor, 1)) return std::nullopt;
  nodes.insert(nodes.end(), p.nodes.begin(), p.nodes.end());
  return p.values[0];
}

// Fills x, axes and nodes when `value` is x - mean(x).
bool centred(const ModelView& model, const GraphView& graph, const std::string& value, Norm& norm) {
  const onnx::NodeProto* sub = graph.producer(value);
  if (!is(sub, "Sub")) return false;
  const onnx::NodeProto* mean = graph.producer(input_of(*sub, 1));
  const auto axes = mean_axes(model, graph, mean);
  if (!axes || input_of(*mean, 0) != input_of(*sub, 0)) return false;
  if (!norm.x.empty() && (norm.x != input_of(*sub, 0) || norm.axes != *axes)) return false;
  norm.x = input_of(*sub, 0);
  norm.axes = *axes;
  norm.nodes.insert(norm.nodes.end(), {mean, sub});
  return true;
}

// Fills the rest when `value` is sqrt(mean(d * d) + epsilon).
bool deviation(const ModelView& model, const GraphView& graph, const std::string& value, Norm& norm) {
  const Pieces pieces(model, graph);
  const onnx::NodeProto* root = graph.producer(value);
  if (!is(root, "Sqrt")) return false;
  const onnx::NodeProto* add = graph.producer(input_of(*root, 0));
  if (!is(add, "Add") || add->input_size() != 2) return false;
  for (int i = 0; i < 2; ++i) {
    const auto epsilon = model.scalar(graph, input_of(*add, 1 - i));
    const onnx::NodeProto* mean = graph.producer(input_of(*add, i));
    const auto axes = mean_axes(model, graph, mean);
    if (!epsilon || !axes || *axes != norm.axes) continue;
    norm.nodes.insert(norm.nodes.end(), {root, add, mean});
    const auto d = squared(pieces, input_of(*mean, 0), norm.nodes);
    if (!d) return false;
    const onnx::NodeProto* sub = graph.producer(*d);
    if (std::find(norm.nodes.begin(), norm.nodes.end(), sub) == norm.nodes.end() && !centred(model, graph, *d, norm)) {
      return false;
    }
    norm.epsilon = *epsilon;
    return true;
  }
  return false;
}

// Takes the multiplication by a scale and the addition of a bias in, where they follow.
void take_affine(const ModelView& model, const GraphView& graph, Norm& norm) {
  for (const char* op : {"Mul", "Add"}) {
    const onnx::NodeProto* next = graph.only_reader(norm.result);
    if (!is(next, op) || next->input_size() != 2) return;
    const std::string& other = input_of(*next, input_of(*next, 0) == norm.result ? 1 : 0);
    const Tensor* constant = model.constant(graph, other);
    if (constant == nullptr || constant->dims().rank() != static_cast<int>(norm.axes.size())) return;
    (op[0] == 'M' ? norm.scale : norm.bias) = other;
    norm.result = output_of(*next, 0);
    norm.nodes.push_back(next);
  }
}

std::optional<Norm> norm_at(const ModelView& model, const GraphView& graph, const onnx::NodeProto& node) {
  Norm norm;
  std::string divisor;
  if (is(&node, "Div") && node.input_size() == 2) {
    if (!centred(model, graph, input_of(node, 0), norm)) return std::nullopt;
    divisor = input_of(node, 1);
  } else if (is(&node, "Mul") && node.input_size() == 2) {
    const onnx::NodeProto* inverse = graph.producer(input_of(node, 1));
    if (!is(inverse, "Reciprocal") || !centred(model, graph, input_of(node, 0), norm)) return std::nullopt;
    norm.nodes.push_back(inverse);
    divisor = input_of(*inverse, 0);
  } else {
    return std::nullopt;
  }
  if (!deviation(model, graph, divisor, norm)) return std::nullopt;
  norm.nodes.push_back(&node);
  norm.result = output_of(node, 0);
  // The last axes, all of them to the end: anything else is another normalisation.
  const TensorType type = model.type(graph, norm.x);
  for (int64_t& axis : norm.axes) {
    if (axis >= 0 && !type.shape.ranked()) return std::nullopt;
    if (axis >= 0) axis -= type.shape.rank();
  }
  std::sort(norm.axes.begin(), norm.axes.end());
  for (size_t i = 0; i < norm.axes.size(); ++i) {
    if (norm.axes[i] != static_cast<int64_t>(i) - static_cast<int64_t>(norm.axes.size())) return std::nullopt;
  }
  if (norm.axes.empty()) return std::nullopt;
  take_affine(model, graph, norm);
  return norm;
}

// The constant dims that are normalised over, when all are known.
std::optional<Dims> normal_dims(const ModelView& model, const GraphView& graph, const Norm& norm) {
  const TensorType type = model.type(graph, norm.x);
  if (type.dtype != DType::FLOAT32 || !type.shape.ranked()) return std::nullopt;
  Dims dims;
  for (int64_t axis : norm.axes) {
    const Dim& d = type.shape[type.shape.rank() + static_cast<int>(axis)];
    if (!d.is_const()) return std::nullopt;
    dims.push_back(d.value());
  }
  for (const std::string* name : {&norm.scale, &norm.bias}) {
    const Tensor* constant = model.constant(graph, *name);
    if (constant != nullptr && !(constant->dims() == dims)) return std::nullopt;
  }
  return dims;
}

}  // namespace

void check_layer_norm_pieces(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    const auto norm = norm_at(model, graph, node);
    if (!norm) return;
    Finding& finding =
        checkup.found(graph, node,
                      counted(norm->nodes.size(), "node") + " from \"" + norm->x + "\" to \"" + norm->result + "\"" +
                          (model.opset() < 17 ? ", as opset " + std::to_string(model.opset()) + " has no such operator"
                                              : std::string()));
    Checkup::costs(finding, norm->nodes);
    const auto dims = normal_dims(model, graph, *norm);
    if (model.opset() < 17 || !dims) return;
    finding.mend = [scope = graph.index(), n = *norm, d = *dims](Editor& editor) {
      std::string scale = n.scale;
      if (scale.empty()) {
        const std::vector<float> ones(static_cast<size_t>(d.count()), 1.0f);
        scale = editor.add_initializer(scope, n.result + "_scale", Tensor::from<float>(DType::FLOAT32, d, ones));
      }
      std::vector<std::string> inputs = {n.x, scale};
      if (!n.bias.empty()) inputs.push_back(n.bias);
      onnx::NodeProto* made = editor.redefine(scope, n.result, "LayerNormalization", inputs);
      if (made == nullptr) return;
      editor.set_int(*made, "axis", n.axes.front());
      editor.set_float(*made, "epsilon", static_cast<float>(n.epsilon));
    };
  });
}

void check_gelu_pieces(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "Mul") || node.output_size() != 1) return;
    const Pieces pieces(model, graph);
    const Product p = pieces.product(output_of(node, 0));
    if (p.values.size() != 2 || !near(p.factor, 0.5)) return;
    for (int i = 0; i < 2; ++i) {
      const auto curve = pieces.gelu_curve(p.values[static_cast<size_t>(i)]);
      if (!curve || curve->x != p.values[static_cast<size_t>(1 - i)]) continue;
      Nodes nodes = curve->nodes;
      nodes.insert(nodes.end(), p.nodes.begin(), p.nodes.end());
      Finding& finding = checkup.found(graph, node,
                                       counted(nodes.size(), "node") + " compute Gelu of \"" + curve->x + "\"" +
                                           (curve->tanh ? " by its tanh form" : ""));
      Checkup::costs(finding, nodes);
      if (model.opset() < 20) finding.severity = Severity::NOTE;  // nobody could have written it in one piece
      if (model.opset() < 20 || model.type(graph, curve->x).dtype != DType::FLOAT32) return;
      finding.mend = [scope = graph.index(), value = output_of(node, 0), c = *curve](Editor& editor) {
        onnx::NodeProto* made = editor.redefine(scope, value, "Gelu", {c.x});
        if (made != nullptr && c.tanh) editor.set_string(*made, "approximate", "tanh");
      };
      return;
    }
  });
}

}  // namespace deepjit::doctor
