// Models of one user op, to check it by.
#include "import/importer.h"
#include "import/user_ops/definition.h"
#include "onnx-ml.pb.h"

namespace deepjit {

namespace {

void describe(onnx::ValueInfoProto& info, const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int>(dtype));
  auto* shape = type->mutable_shape();
  for (const std::string& dim : dims) {
    const Dim known = Dim::parse(dim);
    if (known.is_const()) {
      shape->add_dim()->set_dim_value(known.value());
    } else {
      shape->add_dim()->set_dim_param(dim);
    }
  }
}

}  // namespace

UserOpDims plain_user_op_dims(const UserOp& op, int rank, int leading) {
  UserOpDims all(op.inputs.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (op.shape.inputs().empty()) {
      for (int d = 0; d < rank; ++d) all[i].push_back("D" + std::to_string(d));
      continue;
    }
    const ShapePattern& pattern = op.shape.inputs()[i];
    for (int d = 0; pattern.leading && d < leading; ++d) all[i].push_back("L" + std::to_string(d));
    for (const Dim& dim : pattern.dims) all[i].push_back(dim.to_string());
  }
  return all;
}

std::string model_of_user_op(const UserOp& op, DType dtype, const UserOpDims& dims) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  auto* opset = model.add_opset_import();
  opset->set_version(20);
  opset = model.add_opset_import();
  opset->set_domain(op.domain);
  opset->set_version(1);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("check");
  onnx::NodeProto& node = *graph.add_node();
  node.set_name("checked");
  node.set_domain(op.domain);
  node.set_op_type(op.op_type);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    node.add_input(op.inputs[i]);
    describe(*graph.add_input(), op.inputs[i], op.dtypes[i].value_or(dtype), dims[i]);
  }
  for (const std::string& name : op.definition.outputs) {
    node.add_output(name);
    graph.add_output()->set_name(name);
  }
  for (const auto& [name, fallback] : op.definition.attributes) {
    if (fallback) continue;
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(1);
  }
  return model.SerializeAsString();
}

int usual_rank(const UserOp& op) {
  const auto axis = op.definition.attributes.find("axis");
  const double given = axis != op.definition.attributes.end() ? axis->second.value_or(1) : -1;
  return std::max(3, static_cast<int>(std::min(16.0, given >= 0 ? given + 1 : -given)));
}

void check_user_op_shapes(const std::shared_ptr<const UserOp>& op, DType dtype) {
  const std::string bytes = model_of_user_op(*op, dtype, plain_user_op_dims(*op, usual_rank(*op)));
  ImportOptions options;
  options.user_op = op;
  try {
    const ImportedModel model = import_onnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options);
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
    for (const Value* value : model.graph->inputs) inputs.push_back(value->type.shape);
    for (const Value* value : model.graph->outputs) outputs.push_back(value->type.shape);
    op->shape.check(inputs, outputs, op->definition.outputs, true);
  } catch (const Error& e) {
    const std::string label = "node \"checked\" (" + op->op_type + "): ";  // the user has no such node
    const bool labelled = e.message().rfind(label, 0) == 0;
    throw Error(e.code(), "op " + op->definition.name + ": " + e.message().substr(labelled ? label.size() : 0),
                e.hint());
  }
}

}  // namespace deepjit
