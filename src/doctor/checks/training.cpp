// DJ111 to DJ113: what training leaves behind.
#include <set>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

bool drops_at_random(const ModelView& model, const GraphView& graph, const onnx::NodeProto& node) {
  if (model.opset() < 7) return int_attribute(node, "is_test", 0) == 0;
  if (model.opset() < 12) return false;
  const auto training = model.scalar(graph, input_of(node, 2));
  if (!training || *training == 0) return false;
  const auto ratio = model.scalar(graph, input_of(node, 1));
  return input_of(node, 1).empty() || !ratio || *ratio != 0;
}

bool normalises_by_batch(const ModelView& model, const onnx::NodeProto& node) {
  if (model.opset() >= 14) return int_attribute(node, "training_mode", 0) != 0;
  for (int i = 1; i < node.output_size(); ++i) {
    if (!output_of(node, i).empty()) return true;
  }
  return false;
}

}  // namespace

void check_dropout(Checkup& checkup) {
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "Dropout") || !drops_at_random(checkup.model, graph, node)) return;
    Finding& finding = checkup.found(graph, node, "drops elements at random");
    finding.mend = [scope = graph.index(), value = output_of(node, 0)](Editor& editor) {
      onnx::NodeProto* dropout = editor.producer(scope, value);
      if (dropout == nullptr) return;
      // Without the third input it is in inference mode; before opset 12 is_test says so.
      if (dropout->input_size() > 2) {
        dropout->mutable_input()->RemoveLast();
      } else {
        editor.set_int(*dropout, "is_test", 1);
      }
    };
  });
}

void check_batch_norm(Checkup& checkup) {
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "BatchNormalization") || !normalises_by_batch(checkup.model, node)) return;
    Finding& finding = checkup.found(graph, node, "normalises by the statistics of the batch that runs");
    for (int i = 1; i < node.output_size(); ++i) {
      if (!output_of(node, i).empty() && graph.used(output_of(node, i))) return;  // somebody wants the statistics
    }
    finding.mend = [scope = graph.index(), value = output_of(node, 0)](Editor& editor) {
      onnx::NodeProto* norm = editor.producer(scope, value);
      if (norm == nullptr) return;
      editor.drop_attribute(*norm, "training_mode");
      while (norm->output_size() > 1) norm->mutable_output()->RemoveLast();
    };
  });
}

void check_training_ops(Checkup& checkup) {
  static const std::set<std::string> vendor = {
      "ATenOpGrad",    "SoftmaxCrossEntropyLossGrad", "SoftmaxGrad_13",    "AdamOptimizer", "SGDOptimizer",
      "LambOptimizer", "InPlaceAccumulator",          "BatchNormInternal", "YieldOp"};
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    const bool training = node.domain() == "ai.onnx.preview.training" || node.domain() == "ai.onnx.training";
    if (training || (node.domain() == "com.microsoft" && vendor.count(node.op_type()) != 0)) {
      checkup.found(graph, node, "belongs to training");
    }
  });
}

}  // namespace deepjit::doctor
