// DJ143: attributes and inputs that changed places between opsets, after the opset number alone was changed.
#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

struct Moved {
  const char* op;
  const char* attribute;
  int64_t since;  // the opset in which the attribute became input `input`
  int input;
  bool is_float;
};

constexpr Moved kMoved[] = {
    {"ReduceSum", "axes", 13, 1, false},
    {"ReduceMean", "axes", 18, 1, false},
    {"ReduceMax", "axes", 18, 1, false},
    {"ReduceMin", "axes", 18, 1, false},
    {"ReduceProd", "axes", 18, 1, false},
    {"ReduceL1", "axes", 18, 1, false},
    {"ReduceL2", "axes", 18, 1, false},
    {"ReduceLogSum", "axes", 18, 1, false},
    {"ReduceLogSumExp", "axes", 18, 1, false},
    {"ReduceSumSquare", "axes", 18, 1, false},
    {"Squeeze", "axes", 13, 1, false},
    {"Unsqueeze", "axes", 13, 1, false},
    {"Split", "split", 13, 1, false},
    {"Slice", "starts", 10, 1, false},
    {"Slice", "ends", 10, 2, false},
    {"Slice", "axes", 10, 3, false},
    {"Pad", "pads", 11, 1, false},
    {"TopK", "k", 10, 1, false},
    {"Clip", "min", 11, 1, true},
    {"Clip", "max", 11, 2, true},
    {"Dropout", "ratio", 12, 1, true},
};

std::string opset_text(int64_t opset) { return "opset " + std::to_string(opset); }

void found_attribute(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node, const Moved& moved) {
  Finding& finding =
      checkup.found(graph, node,
                    std::string("\"") + moved.attribute + "\" is an attribute, in " +
                        opset_text(checkup.model.opset()) + " it is input " + std::to_string(moved.input));
  if (moved.is_float || node.output_size() == 0) return;
  const onnx::AttributeProto* a = attribute(node, moved.attribute);
  std::vector<int64_t> values(a->ints().begin(), a->ints().end());
  if (a->type() == onnx::AttributeProto::INT) values = {a->i()};
  finding.mend = [scope = graph.index(), value = output_of(node, 0), moved, values](Editor& editor) {
    onnx::NodeProto* target = editor.producer(scope, value);
    if (target == nullptr) return;
    editor.drop_attribute(*target, moved.attribute);
    const std::string name = editor.add_initializer(scope, value + "_" + moved.attribute, Tensor::vector_i64(values));
    while (target->input_size() <= moved.input) target->add_input("");
    target->set_input(moved.input, name);
  };
}

void found_input(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node, const Moved& moved) {
  Finding& finding = checkup.found(graph, node,
                                   std::string("\"") + moved.attribute + "\" is input " + std::to_string(moved.input) +
                                       ", in " + opset_text(checkup.model.opset()) + " it is an attribute");
  const auto values = checkup.model.integers(graph, input_of(node, moved.input));
  if (!values || node.output_size() == 0 || node.input_size() != moved.input + 1 || moved.input != 1) return;
  if (std::string(moved.attribute) == "k") return;
  finding.mend = [scope = graph.index(), value = output_of(node, 0), moved, values](Editor& editor) {
    onnx::NodeProto* target = editor.producer(scope, value);
    if (target == nullptr) return;
    target->mutable_input()->RemoveLast();
    editor.set_ints(*target, moved.attribute, *values);
  };
}

}  // namespace

void check_axes_form(Checkup& checkup) {
  const int64_t opset = checkup.model.opset();
  if (opset == 0) return;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    for (const Moved& moved : kMoved) {
      if (!is(&node, moved.op)) continue;
      const bool given = attribute(node, moved.attribute) != nullptr;
      if (opset >= moved.since && given) found_attribute(checkup, graph, node, moved);
      if (opset < moved.since && !input_of(node, moved.input).empty()) found_input(checkup, graph, node, moved);
    }
  });
}

}  // namespace deepjit::doctor
