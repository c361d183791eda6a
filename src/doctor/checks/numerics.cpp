// DJ301, DJ303: Casts in a row, and 64-bit arithmetic on indices.
#include <fmt/format.h>

#include <set>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

DType cast_target(const onnx::NodeProto& node) {
  const auto to = int_attribute(node, "to", 0);
  return to > 0 && to <= 26 ? static_cast<DType>(to) : DType::UNDEFINED;
}

// Bits of the significand, sign of the type apart; 0 for types this is not about.
int digits(DType dtype) {
  switch (dtype) {
    case DType::FLOAT64:
      return 53;
    case DType::FLOAT32:
      return 24;
    case DType::FLOAT16:
      return 11;
    case DType::BFLOAT16:
      return 8;
    default:
      return 0;
  }
}

// Does `wide` hold every value of `narrow`?
bool holds(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::BOOL) return true;
  if (digits(narrow) > 0) return wide == DType::FLOAT64 || (wide == DType::FLOAT32 && digits(narrow) < 24);
  if (!is_integer(narrow) || dtype_size(narrow) == 0) return false;
  const auto bits = static_cast<int>(8 * dtype_size(narrow));
  if (digits(wide) > 0) return digits(wide) >= bits && wide != DType::FLOAT16 && wide != DType::BFLOAT16;
  if (!is_integer(wide)) return false;
  const auto wide_bits = static_cast<int>(8 * dtype_size(wide));
  return is_signed_integer(wide) ? wide_bits > bits || (wide_bits == bits && is_signed_integer(narrow))
                                 : !is_signed_integer(narrow) && wide_bits > bits;
}

void check_cast(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node) {
  const ModelView& model = checkup.model;
  const DType to = cast_target(node);
  const onnx::NodeProto* before = graph.producer(input_of(node, 0));
  const DType from = model.type(graph, input_of(node, 0)).dtype;
  const auto name = [](DType d) { return std::string(dtype_name(d)); };
  if (from == to && to != DType::UNDEFINED) {
    Finding& finding = checkup.found(graph, node, "casts " + name(to) + " to itself");
    finding.severity = Severity::NOTE;  // exporters do it all the time, and runtimes drop it
    finding.mend = [scope = graph.index(), value = output_of(node, 0), source = input_of(node, 0)](Editor& editor) {
      editor.alias(scope, value, source);
    };
    return;
  }
  if (!is(before, "Cast")) return;
  const DType middle = cast_target(*before);
  const DType start = model.type(graph, input_of(*before, 0)).dtype;
  if (start == DType::UNDEFINED || middle == DType::UNDEFINED || start == middle) return;
  const std::string chain = name(start) + " to " + name(middle) + " to " + name(to);
  if (holds(middle, start)) {
    Finding& finding = checkup.found(graph, node, chain + (start == to ? ": nothing changes" : ": one Cast does it"));
    Checkup::costs(finding, {before, &node});
    finding.mend = [scope = graph.index(), value = output_of(node, 0), source = input_of(*before, 0),
                    undone = start == to, to](Editor& editor) {
      if (undone) return editor.alias(scope, value, source);
      if (onnx::NodeProto* made = editor.redefine(scope, value, "Cast", {source})) {
        editor.set_int(*made, "to", static_cast<int64_t>(to));
      }
    };
  } else if (start == to && digits(middle) > 0 && digits(start) > digits(middle)) {
    Finding& finding = checkup.found(graph, node, chain + ": rounds to the narrow type and back, nothing else");
    Checkup::costs(finding, {before, &node});
  }
}

bool index_input(const onnx::NodeProto& node, const std::string& value) {
  static const std::set<std::string> readers = {"Gather",    "GatherElements", "GatherND", "ScatterElements",
                                                "ScatterND", "OneHot",         "Scatter"};
  if (!default_domain(node) || readers.count(node.op_type()) == 0) return false;
  return input_of(node, node.op_type() == "OneHot" ? 0 : 1) == value;
}

// The indexing node that the value reaches, through operators that only move it or cast it.
const onnx::NodeProto* indexed_by(const GraphView& graph, const std::string& value, int depth) {
  static const std::set<std::string> movers = {"Reshape", "Unsqueeze", "Squeeze", "Expand", "Cast",  "Identity",
                                               "Flatten", "Transpose", "Concat",  "Slice",  "Where", "Tile"};
  for (const onnx::NodeProto* reader : graph.readers(value)) {
    if (index_input(*reader, value)) return reader;
    if (depth == 0 || !default_domain(*reader) || movers.count(reader->op_type()) == 0) continue;
    if (reader->op_type() != "Concat" && reader->op_type() != "Where" && input_of(*reader, 0) != value) continue;
    if (const onnx::NodeProto* found = indexed_by(graph, output_of(*reader, 0), depth - 1)) return found;
  }
  return nullptr;
}

bool index_arithmetic(const ModelView& model, const GraphView& graph, const onnx::NodeProto& node) {
  static const std::set<std::string> arithmetic = {"Add", "Sub", "Mul", "Div",    "Mod",     "Neg",
                                                   "Abs", "Min", "Max", "CumSum", "BitShift"};
  if (!default_domain(node) || arithmetic.count(node.op_type()) == 0 || node.output_size() != 1) return false;
  const TensorType type = model.type(graph, output_of(node, 0));
  if (type.dtype != DType::INT64 || !type.shape.ranked()) return false;
  // Arithmetic on shapes is done once on a handful of numbers.
  const Value* inferred = model.inferred(output_of(node, 0));
  if (inferred != nullptr && inferred->values) return false;
  constexpr int64_t kFew = 16;
  const Dim count = type.shape.count();
  return !count.is_const() || count.value() > kFew;
}

}  // namespace

void check_cast_chain(Checkup& checkup) {
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (is(&node, "Cast") && node.input_size() == 1 && node.output_size() == 1) check_cast(checkup, graph, node);
  });
}

void check_int64_indices(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!index_arithmetic(model, graph, node)) return;
    const onnx::NodeProto* reader = indexed_by(graph, output_of(node, 0), 6);
    if (reader == nullptr) return;
    // Count what comes before it, down to where the integers come from.
    Nodes nodes = {&node};
    for (size_t i = 0; i < nodes.size() && nodes.size() < 64; ++i) {
      for (const std::string& input : nodes[i]->input()) {
        const onnx::NodeProto* before = graph.producer(input);
        if (before != nullptr && index_arithmetic(model, graph, *before) &&
            std::find(nodes.begin(), nodes.end(), before) == nodes.end()) {
          nodes.push_back(before);
        }
      }
    }
    Finding& finding =
        checkup.found(graph, node,
                      counted(nodes.size(), "node") + " of int64 arithmetic make the indices " +
                          model.type(graph, output_of(node, 0)).to_string() + " of \"" + graph.name_of(*reader) + "\"");
    Checkup::costs(finding, nodes);
  });
}

}  // namespace deepjit::doctor
