// DJ103, DJ104: axes that the export fixed and the model does not need fixed.
//
// The proof is a trial: the axis is made a symbol, and the model imported again. When its shapes still fit, and
// for the batch every output has the symbol as its first dim, the model takes any size.
#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

const char* const kSymbol = "deepjit_free_axis";

// The model with dimension `axis` of these inputs free; it must outlive the view.
onnx::ModelProto freed(const ModelView& model, const std::vector<std::string>& inputs, int axis) {
  onnx::ModelProto proto = model.proto();
  onnx::GraphProto& graph = *proto.mutable_graph();
  for (auto& info : *graph.mutable_input()) {
    if (std::find(inputs.begin(), inputs.end(), info.name()) == inputs.end()) continue;
    info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_param(kSymbol);
  }
  graph.clear_value_info();
  for (auto& info : *graph.mutable_output()) {
    if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->clear_shape();
  }
  return proto;
}

bool bakes(const ModelView& view) {
  Options options;
  Report report;
  Checkup trial(view, options, report);
  for (const Rule& rule : rules()) {
    if (rule.check == check_baked_batch || rule.check == check_baked_length) trial.run(rule);
  }
  return !report.findings.empty();
}

// The inputs of the main graph that callers feed.
std::vector<const onnx::ValueInfoProto*> fed(const ModelView& model) {
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& info : model.main().proto().input()) {
    if (!model.main().is_initializer(info.name())) inputs.push_back(&info);
  }
  return inputs;
}

}  // namespace

void check_fixed_batch(Checkup& checkup) {
  const ModelView& model = checkup.model;
  if (model.failure()) return;
  std::vector<std::string> inputs;
  std::optional<int64_t> batch;
  for (const onnx::ValueInfoProto* info : fed(model)) {
    const TensorType type = model.type(model.main(), info->name());
    if (!type.shape.ranked()) return;
    if (type.shape.rank() < 2) continue;
    const Dim& d = type.shape[0];
    if (!d.is_const() || (batch && *batch != d.value())) return;
    batch = d.value();
    inputs.push_back(info->name());
  }
  if (inputs.empty() || *batch < 1) return;
  const onnx::ModelProto proto = freed(model, inputs, 0);
  const ModelView trial(proto, model.folder());
  if (trial.failure()) return;
  for (const auto& info : proto.graph().output()) {
    const TensorType type = trial.type(trial.main(), info.name());
    if (!type.shape.ranked() || type.shape.rank() == 0 || !(type.shape[0] == Dim::symbol(kSymbol))) return;
  }
  if (bakes(trial)) return;
  Finding& finding = checkup.found("every input is fixed to a batch of " + std::to_string(*batch) +
                                   ", and every output would follow a free one");
  finding.value = inputs.front();
  finding.mend = [inputs](Editor& editor) { editor.free_batch(inputs, "batch"); };
}

void check_fixed_sequence(Checkup& checkup) {
  const ModelView& model = checkup.model;
  if (model.failure()) return;
  std::vector<std::string> inputs;
  std::optional<int64_t> length;
  for (const onnx::ValueInfoProto* info : fed(model)) {
    const TensorType type = model.type(model.main(), info->name());
    // Token ids and what comes with them.
    if (!is_integer(type.dtype) || !type.shape.ranked() || type.shape.rank() != 2) continue;
    const Dim& d = type.shape[1];
    if (!d.is_const() || d.value() < 2 || (length && *length != d.value())) return;
    length = d.value();
    inputs.push_back(info->name());
  }
  if (inputs.empty()) return;
  bool embedded = false;
  for (const std::string& name : inputs) {
    for (const onnx::NodeProto* reader : model.main().readers(name)) {
      embedded = embedded || (is(reader, "Gather") && input_of(*reader, 1) == name);
    }
  }
  if (!embedded) return;
  const onnx::ModelProto proto = freed(model, inputs, 1);
  const ModelView trial(proto, model.folder());
  if (trial.failure() || bakes(trial)) return;
  Finding& finding = checkup.found("\"" + inputs.front() + "\" is fixed to a length of " + std::to_string(*length));
  finding.value = inputs.front();
}

}  // namespace deepjit::doctor
