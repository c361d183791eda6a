// One rule at work: what its check sees, and where its findings go. The checks are declared here, one a rule.
#pragma once

#include "doctor/doctor.h"
#include "doctor/view.h"

namespace deepjit::doctor {

class Checkup {
 public:
  Checkup(const ModelView& model, const Options& options, Report& report)
      : model(model), options(options), report_(report) {}

  void run(const Rule& rule) {
    rule_ = &rule;
    rule.check(*this);
  }
  Finding& found(const std::string& message) {
    Finding finding;
    finding.rule = rule_;
    finding.severity = rule_->severity;
    finding.message = message;
    report_.findings.push_back(std::move(finding));
    return report_.findings.back();
  }
  // About a node; it alone is what the finding costs, until the caller says more.
  Finding& found(const GraphView& graph, const onnx::NodeProto& node, const std::string& message) {
    Finding& finding = found(message);
    finding.node = graph.name_of(node);
    finding.op = node.op_type();
    if (node.output_size() > 0) finding.value = node.output(0);
    costs(finding, {&node});
    return finding;
  }
  static void costs(Finding& finding, const Nodes& nodes) {
    finding.nodes = nodes.size();
    finding.values.clear();
    for (const onnx::NodeProto* node : nodes) {
      finding.values.insert(finding.values.end(), node->output().begin(), node->output().end());
    }
  }
  // Calls f(graph, node) for every node of every graph.
  template <typename F>
  void each_node(F&& f) const {
    for (const auto& graph : model.graphs()) {
      for (const auto& node : graph->proto().node()) f(*graph, node);
    }
  }

  const ModelView& model;
  const Options& options;

 private:
  Report& report_;
  const Rule* rule_ = nullptr;
};

// checks/invalid.cpp
void check_invalid_model(Checkup& checkup);
// checks/shapes.cpp
void check_baked_batch(Checkup& checkup);
void check_baked_length(Checkup& checkup);
void check_traffic(Checkup& checkup);
// checks/fixed_axes.cpp
void check_fixed_batch(Checkup& checkup);
void check_fixed_sequence(Checkup& checkup);
// checks/training.cpp
void check_dropout(Checkup& checkup);
void check_batch_norm(Checkup& checkup);
void check_training_ops(Checkup& checkup);
// checks/operators.cpp
void check_custom_ops(Checkup& checkup);
void check_unknown_ops(Checkup& checkup);
void check_unused_inputs(Checkup& checkup);
void check_dead_nodes(Checkup& checkup);
void check_constant_outputs(Checkup& checkup);
// checks/control.cpp
void check_constant_if(Checkup& checkup);
void check_constant_where(Checkup& checkup);
void check_constant_loop(Checkup& checkup);
// checks/unrolled.cpp
void check_unrolled_loop(Checkup& checkup);
// checks/pieces.cpp
void check_layer_norm_pieces(Checkup& checkup);
void check_gelu_pieces(Checkup& checkup);
// checks/axes.cpp
void check_axes_form(Checkup& checkup);
// checks/layout.cpp
void check_transpose_pair(Checkup& checkup);
void check_layout_ping_pong(Checkup& checkup);
// checks/numerics.cpp
void check_cast_chain(Checkup& checkup);
void check_int64_indices(Checkup& checkup);
// checks/half.cpp
void check_half_overflow(Checkup& checkup);
// checks/weights.cpp
void check_duplicate_weights(Checkup& checkup);
void check_unused_weights(Checkup& checkup);
void check_weights_as_inputs(Checkup& checkup);
// checks/quantization.cpp
void check_quantized_inside_fusion(Checkup& checkup);
void check_half_quantized(Checkup& checkup);
void check_quantization_mismatch(Checkup& checkup);
void check_requantize(Checkup& checkup);
// checks/tensorrt.cpp
void check_int8_without_scales(Checkup& checkup);
void check_scales_without_int8(Checkup& checkup);
void check_profile_against_traffic(Checkup& checkup);
void check_profile_missing(Checkup& checkup);
void check_profile_wrong(Checkup& checkup);
void check_workspace(Checkup& checkup);
void check_foreign_ops(Checkup& checkup);
void check_zero_points(Checkup& checkup);
void check_shared_context(Checkup& checkup);
// checks/onnxruntime.cpp
void check_provider_order(Checkup& checkup);
void check_rewritten_subgraph(Checkup& checkup);
void check_shared_session(Checkup& checkup);

}  // namespace deepjit::doctor
