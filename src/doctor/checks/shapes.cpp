// DJ101, DJ102, DJ105: sizes that the inputs leave free and the graph does not.
#include <fmt/format.h>

#include <set>

#include "doctor/checkup.h"

namespace deepjit::doctor {

namespace {

using Symbols = std::unordered_set<std::string>;

// Symbols of `dim` when it is an expression in the inputs' symbols alone; empty otherwise.
std::vector<std::string> free_symbols(const Dim& dim, const Symbols& inputs) {
  std::vector<std::string> names;
  dim.collect_symbols(names);
  for (const std::string& name : names) {
    if (inputs.count(name) == 0) return {};
  }
  return names;
}

bool contains(const Dim& dim, const std::string& symbol) {
  std::vector<std::string> names;
  dim.collect_symbols(names);
  return std::find(names.begin(), names.end(), symbol) != names.end();
}

struct Baked {
  bool batch = false;  // else a length
  std::string symbol;
  std::string message;
};

// Does anything computed from `value` have `symbol` as a dim of its own again?
bool restored(const ModelView& model, const GraphView& graph, const std::string& value, const std::string& symbol,
              bool first_only) {
  std::vector<std::string> waiting = {value};
  std::set<std::string> seen;
  while (!waiting.empty()) {
    const std::string name = waiting.back();
    waiting.pop_back();
    for (const onnx::NodeProto* reader : graph.readers(name)) {
      for (const std::string& output : reader->output()) {
        if (output.empty() || !seen.insert(output).second) continue;
        const Shape shape = model.type(graph, output).shape;
        for (int i = 0; shape.ranked() && i < shape.rank() && (i == 0 || !first_only); ++i) {
          if (shape[i].is_symbol() && contains(shape[i], symbol)) return true;
        }
        waiting.push_back(output);
      }
    }
  }
  return false;
}

class BakedSizes {
 public:
  explicit BakedSizes(const ModelView& model)
      : model_(model), all_(model.input_symbols(false)), first_(model.input_symbols(true)) {}

  bool any() const { return !all_.empty(); }

  // A Reshape to constants of a value whose count is free.
  std::optional<Baked> reshape(const GraphView& graph, const onnx::NodeProto& node) const {
    const auto target = model_.integers(graph, input_of(node, 1));
    const Shape in = model_.type(graph, input_of(node, 0)).shape;
    const Shape out = model_.type(graph, output_of(node, 0)).shape;
    if (!target || !in.ranked() || !out.ranked() || target->empty()) return std::nullopt;
    const Dim before = in.count();
    const auto symbols = free_symbols(before, all_);
    if (symbols.empty()) return std::nullopt;
    const bool open = std::find(target->begin(), target->end(), -1) != target->end();
    if (!open) {
      if (before == out.count()) return std::nullopt;
      const std::string symbol = missing(symbols, out);
      return Baked{
          first_.count(symbol) != 0, symbol,
          fmt::format("reshapes {} to {}: only one value of {} fits", in.to_string(), out.to_string(), symbol)};
    }
    return swallowed(graph, node, *target, in, out);
  }

  // An element-wise operand whose constant length meets a free one.
  std::optional<Baked> broadcast(const GraphView& graph, const onnx::NodeProto& node) const {
    std::vector<Shape> shapes;
    for (const std::string& input : node.input()) {
      const Shape shape = model_.type(graph, input).shape;
      if (input.empty() || !shape.ranked()) return std::nullopt;
      shapes.push_back(shape);
    }
    for (size_t a = 0; a < shapes.size(); ++a) {
      for (size_t b = 0; b < shapes.size(); ++b) {
        if (auto baked = meet(node, shapes, a, b)) return baked;
      }
    }
    return std::nullopt;
  }

  // An Expand of a free size to constants.
  std::optional<Baked> expand(const GraphView& graph, const onnx::NodeProto& node) const {
    const auto target = model_.integers(graph, input_of(node, 1));
    const Shape in = model_.type(graph, input_of(node, 0)).shape;
    if (!target || !in.ranked()) return std::nullopt;
    for (int i = 0; i < in.rank(); ++i) {
      const int at = i + static_cast<int>(target->size()) - in.rank();
      if (at < 0 || (*target)[static_cast<size_t>(at)] <= 1 || !in[i].is_symbol()) continue;
      const std::string symbol = in[i].to_string();
      if (all_.count(symbol) == 0) continue;
      return Baked{first_.count(symbol) != 0, symbol,
                   fmt::format("expands {} to the constant {}", in.to_string(), (*target)[static_cast<size_t>(at)])};
    }
    return std::nullopt;
  }

  // A recurrent operator whose constant initial state has a batch of its own.
  std::optional<Baked> state(const GraphView& graph, const onnx::NodeProto& node) const {
    const Shape x = model_.type(graph, input_of(node, 0)).shape;
    if (!x.ranked() || x.rank() != 3 || int_attribute(node, "layout", 0) != 0 || !x[1].is_symbol()) return std::nullopt;
    const std::string symbol = x[1].to_string();
    for (int i : {5, 6}) {
      const Tensor* initial = model_.constant(graph, input_of(node, i));
      if (initial == nullptr || initial->dims().rank() != 3 || all_.count(symbol) == 0) continue;
      return Baked{true, symbol,
                   fmt::format("the initial state \"{}\" holds a batch of {}, the input's is {}", input_of(node, i),
                               initial->dims()[1], symbol)};
    }
    return std::nullopt;
  }

 private:
  // The symbol of the count that the result lacks; one of the batch first.
  std::string missing(const std::vector<std::string>& symbols, const Shape& out) const {
    std::string best = symbols.front();
    bool found = false;
    for (const std::string& symbol : symbols) {
      if (contains(out.count(), symbol) || (found && first_.count(symbol) == 0)) continue;
      best = symbol;
      found = true;
    }
    return best;
  }

  // -1 takes the batch in because its own place is a constant, and nothing ever gives it back.
  std::optional<Baked> swallowed(const GraphView& graph, const onnx::NodeProto& node,
                                 const std::vector<int64_t>& target, const Shape& in, const Shape& out) const {
    if (in.rank() < 2 || out.rank() < 2) return std::nullopt;
    const auto at_batch = target[0];
    if (in[0].is_symbol() && first_.count(in[0].to_string()) != 0 && at_batch > 0) {
      const std::string symbol = in[0].to_string();
      if (restored(model_, graph, output_of(node, 0), symbol, true) || !feeds_output(graph, output_of(node, 0))) {
        return std::nullopt;
      }
      return Baked{true, symbol,
                   fmt::format("reshapes {} to {}: samples run into each other when {} is not {}", in.to_string(),
                               out.to_string(), symbol, at_batch)};
    }
    // [N,S,H] to [-1,128,...]: the batch takes the length's surplus.
    if (at_batch != -1 || target[1] <= 1 || !in[1].is_symbol()) return std::nullopt;
    const std::string symbol = in[1].to_string();
    if (all_.count(symbol) == 0 || first_.count(symbol) != 0) return std::nullopt;
    Dim inner(1);
    for (int i = 2; i < out.rank(); ++i) inner = inner * out[i];
    Dim same(1);
    for (int i = 2; i < in.rank(); ++i) same = same * in[i];
    if (!(inner == same) || restored(model_, graph, output_of(node, 0), symbol, false)) return std::nullopt;
    return Baked{
        false, symbol,
        fmt::format("reshapes {} to {}: right only when {} is {}", in.to_string(), out.to_string(), symbol, target[1])};
  }

  bool feeds_output(const GraphView& graph, const std::string& value) const {
    std::vector<std::string> waiting = {value};
    std::set<std::string> seen;
    while (!waiting.empty()) {
      const std::string name = waiting.back();
      waiting.pop_back();
      if (graph.is_output(name)) return true;
      for (const onnx::NodeProto* reader : graph.readers(name)) {
        for (const std::string& output : reader->output()) {
          if (seen.insert(output).second) waiting.push_back(output);
        }
      }
    }
    return false;
  }

  std::optional<Baked> meet(const onnx::NodeProto& node, const std::vector<Shape>& shapes, size_t a, size_t b) const {
    for (int i = 1; i <= std::min(shapes[a].rank(), shapes[b].rank()); ++i) {
      const Dim& free = shapes[a][shapes[a].rank() - i];
      const Dim& fixed = shapes[b][shapes[b].rank() - i];
      if (!free.is_symbol() || !fixed.is_const() || fixed.value() <= 1) continue;
      const std::string symbol = free.to_string();
      if (all_.count(symbol) == 0) continue;
      return Baked{first_.count(symbol) != 0, symbol,
                   fmt::format("\"{}\" {} and \"{}\" {} meet: right only when {} is {}",
                               input_of(node, static_cast<int>(a)), shapes[a].to_string(),
                               input_of(node, static_cast<int>(b)), shapes[b].to_string(), symbol, fixed.value())};
    }
    return std::nullopt;
  }

  const ModelView& model_;
  Symbols all_, first_;
};

void check_baked(Checkup& checkup, bool batch) {
  static const std::set<std::string> element_wise = {"Add", "Sub", "Mul", "Div",   "Where",   "Max", "Min",
                                                     "Pow", "And", "Or",  "Equal", "Greater", "Less"};
  const BakedSizes sizes(checkup.model);
  if (!sizes.any()) return;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!default_domain(node) || node.output_size() == 0 || node.input_size() == 0) return;
    std::optional<Baked> baked;
    const std::string& op = node.op_type();
    if (op == "Reshape") baked = sizes.reshape(graph, node);
    if (op == "Expand") baked = sizes.expand(graph, node);
    if (op == "LSTM" || op == "GRU" || op == "RNN") baked = sizes.state(graph, node);
    if (element_wise.count(op) != 0) baked = sizes.broadcast(graph, node);
    if (baked && baked->batch == batch) checkup.found(graph, node, baked->message);
  });
}

}  // namespace

void check_baked_batch(Checkup& checkup) { check_baked(checkup, true); }
void check_baked_length(Checkup& checkup) { check_baked(checkup, false); }

void check_traffic(Checkup& checkup) {
  std::set<std::string> told;
  for (const auto& entry : checkup.options.traffic) {
    for (const auto& [name, dims] : entry) {
      const TensorType type = checkup.model.type(checkup.model.main(), name);
      if (!checkup.model.main().is_input(name)) {
        throw Error(Code::INPUT_NAME, "the traffic names \"" + name + "\", the model has no such input");
      }
      if (!type.shape.ranked()) continue;
      bool fits = type.shape.rank() == dims.rank();
      for (int i = 0; fits && i < dims.rank(); ++i) fits = !type.shape[i].is_const() || type.shape[i] == dims[i];
      const std::string text =
          "\"" + name + "\" is " + type.shape.to_string() + ", the traffic brings " + dims.to_string();
      if (fits || !told.insert(text).second) continue;
      Finding& finding = checkup.found(text);
      finding.value = name;
    }
  }
}

}  // namespace deepjit::doctor
