// Mutations that keep a model a model, so that they reach the shape rules and passes behind the parser.
#include <limits>

#include "harness.h"
#include "onnx-ml.pb.h"
#include "ops/op.h"

namespace deepjit::fuzz {

namespace {

constexpr int64_t kNumbers[] = {0,  1,  2,  3,  4,   5,    7,         16,        17,        -1,        -2,       -3,
                                64, 65, 99, -5, 255, 1000, 1LL << 31, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN};
constexpr float kFloats[] = {0.0f,
                             -0.0f,
                             1.0f,
                             -1.0f,
                             0.5f,
                             2.0f,
                             1e-30f,
                             1e30f,
                             -1e30f,
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

class ModelMutator {
 public:
  ModelMutator(onnx::ModelProto& model, std::mt19937_64& random) : model_(model), random_(random) {}

  void run() {
    onnx::GraphProto* graph = model_.mutable_graph();
    // Into a body or a function now and then.
    if (model_.functions_size() > 0 && one_in(3)) {
      auto* function = model_.mutable_functions(pick(model_.functions_size()));
      if (function->node_size() > 0) return change_node(*function->mutable_node(pick(function->node_size())), *graph);
    }
    for (int depth = 0; depth < 3 && one_in(2); ++depth) {
      onnx::GraphProto* inner = some_body(*graph);
      if (inner == nullptr) break;
      graph = inner;
    }
    change_graph(*graph);
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  bool one_in(uint64_t n) { return random_() % n == 0; }
  int64_t number() {
    return one_in(3) ? static_cast<int64_t>(random_() % 8) : kNumbers[random_() % std::size(kNumbers)];
  }
  float real() { return kFloats[random_() % std::size(kFloats)]; }

  onnx::GraphProto* some_body(onnx::GraphProto& graph) {
    for (auto& node : *graph.mutable_node()) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g() && one_in(2)) return attribute.mutable_g();
      }
    }
    return nullptr;
  }

  std::string some_value(const onnx::GraphProto& graph) {
    const int inputs = graph.input_size();
    const int initializers = graph.initializer_size();
    const int nodes = graph.node_size();
    if (inputs + initializers + nodes == 0) return "";
    const int k = pick(inputs + initializers + nodes);
    if (k < inputs) return graph.input(k).name();
    if (k < inputs + initializers) return graph.initializer(k - inputs).name();
    const auto& node = graph.node(k - inputs - initializers);
    return node.output_size() == 0 ? "" : node.output(pick(node.output_size()));
  }

  void change_graph(onnx::GraphProto& graph) {
    switch (pick(10)) {
      case 0:
        if (model_.opset_import_size() > 0)
          model_.mutable_opset_import(pick(model_.opset_import_size()))->set_version(1 + pick(27));
        return;
      case 1:
        if (graph.initializer_size() > 0) change_tensor(*graph.mutable_initializer(pick(graph.initializer_size())));
        return;
      case 2:
        if (graph.input_size() > 0) change_type(*graph.mutable_input(pick(graph.input_size())));
        return;
      case 3:
      case 4:
        if (graph.input_size() > 0) bake_input(graph, pick(graph.input_size()));
        return;
      case 5:
        return copy_node(graph);
      default:
        if (graph.node_size() > 0) change_node(*graph.mutable_node(pick(graph.node_size())), graph);
    }
  }

  // A copy of a node at the end whose result is an output of its own.
  void copy_node(onnx::GraphProto& graph) {
    if (graph.node_size() == 0 || graph.node_size() > 40) return;
    const onnx::NodeProto source = graph.node(pick(graph.node_size()));
    onnx::NodeProto& node = *graph.add_node();
    node = source;
    for (auto& output : *node.mutable_output()) {
      if (!output.empty()) output += "_" + std::to_string(graph.node_size());
    }
    if (node.input_size() > 0) node.set_input(pick(node.input_size()), some_value(graph));
    if (node.output_size() > 0 && !node.output(0).empty()) graph.add_output()->set_name(node.output(0));
  }

  // The input becomes an initializer, so that passes can fold.
  void bake_input(onnx::GraphProto& graph, int i) {
    const onnx::ValueInfoProto info = graph.input(i);
    const auto& type = info.type().tensor_type();
    onnx::TensorProto tensor;
    tensor.set_name(info.name());
    tensor.set_data_type(type.elem_type());
    int64_t count = 1;
    for (const auto& dim : type.shape().dim()) {
      const int64_t size = dim.has_dim_value() ? dim.dim_value() : 2;
      if (size < 0 || size > 4096 || (count *= size) > 4096) return;
      tensor.add_dims(size);
    }
    for (int64_t k = 0; k < count; ++k) {
      switch (type.elem_type()) {
        case onnx::TensorProto::FLOAT:
          tensor.add_float_data(one_in(8) ? real() : static_cast<float>(k % 5) - 2);
          break;
        case onnx::TensorProto::DOUBLE:
          tensor.add_double_data(one_in(8) ? real() : static_cast<double>(k % 5) - 2);
          break;
        case onnx::TensorProto::INT64:
          tensor.add_int64_data(one_in(4) ? number() : k % 3);
          break;
        case onnx::TensorProto::UINT64:
        case onnx::TensorProto::UINT32:
          tensor.add_uint64_data(static_cast<uint64_t>(k % 3));
          break;
        case onnx::TensorProto::STRING:
          tensor.add_string_data("s");
          break;
        default:
          tensor.add_int32_data(static_cast<int32_t>(one_in(8) ? number() : k % 3));
      }
    }
    graph.mutable_input()->DeleteSubrange(i, 1);
    *graph.add_initializer() = tensor;
  }

  void change_tensor(onnx::TensorProto& tensor) {
    switch (pick(5)) {
      case 0:
        tensor.set_data_type(pick(27));
        return;
      case 1:
        if (tensor.dims_size() > 0) tensor.set_dims(pick(tensor.dims_size()), number());
        return;
      case 2:
        tensor.add_dims(one_in(2) ? 1 : number());
        return;
      case 3:
        if (tensor.int64_data_size() > 0) tensor.set_int64_data(pick(tensor.int64_data_size()), number());
        if (tensor.float_data_size() > 0) tensor.set_float_data(pick(tensor.float_data_size()), real());
        return;
      default:
        if (tensor.raw_data().size() >= 8) {
          const int64_t value = number();
          const size_t at = random_() % (tensor.raw_data().size() / 8) * 8;
          tensor.mutable_raw_data()->replace(at, 8, reinterpret_cast<const char*>(&value), 8);
        }
    }
  }

  void change_type(onnx::ValueInfoProto& info) {
    auto* type = info.mutable_type()->mutable_tensor_type();
    auto* shape = type->mutable_shape();
    switch (pick(5)) {
      case 0:
        type->set_elem_type(pick(27));
        return;
      case 1:
        if (shape->dim_size() > 0) shape->mutable_dim(pick(shape->dim_size()))->set_dim_value(number());
        return;
      case 2:
        if (shape->dim_size() > 0) shape->mutable_dim(pick(shape->dim_size()))->set_dim_param(one_in(2) ? "N" : "M");
        return;
      case 3:
        shape->add_dim()->set_dim_value(1 + pick(4));
        return;
      default:
        if (one_in(4)) return type->clear_shape();
        if (shape->dim_size() > 0) shape->mutable_dim()->RemoveLast();
    }
  }

  void change_node(onnx::NodeProto& node, const onnx::GraphProto& graph) {
    const auto& ops = op_registry().all();
    switch (pick(8)) {
      case 0:
        node.set_op_type(ops[random_() % ops.size()]->name);
        return;
      case 1:
        if (node.input_size() > 0) node.set_input(pick(node.input_size()), one_in(4) ? "" : some_value(graph));
        return;
      case 2:
        if (one_in(2)) {
          node.add_input(some_value(graph));
        } else if (node.input_size() > 0) {
          node.mutable_input()->RemoveLast();
        }
        return;
      case 3:
        if (one_in(3)) node.add_output("made_" + std::to_string(random_() % 100));
        return;
      default:
        if (node.attribute_size() > 0) change_attribute(node);
    }
  }

  void change_attribute(onnx::NodeProto& node) {
    const int k = pick(node.attribute_size());
    onnx::AttributeProto& attribute = *node.mutable_attribute(k);
    if (one_in(10)) return node.mutable_attribute()->DeleteSubrange(k, 1);
    switch (attribute.type()) {
      case onnx::AttributeProto::INT:
        return attribute.set_i(number());
      case onnx::AttributeProto::FLOAT:
        return attribute.set_f(real());
      case onnx::AttributeProto::INTS:
        if (attribute.ints_size() > 0 && !one_in(4)) return attribute.set_ints(pick(attribute.ints_size()), number());
        if (one_in(2)) return attribute.add_ints(number());
        return attribute.clear_ints();
      case onnx::AttributeProto::FLOATS:
        if (attribute.floats_size() > 0) attribute.set_floats(pick(attribute.floats_size()), real());
        return;
      case onnx::AttributeProto::TENSOR:
        return change_tensor(*attribute.mutable_t());
      case onnx::AttributeProto::STRING:
        if (!attribute.s().empty()) attribute.mutable_s()->pop_back();
        return;
      default:
        return;
    }
  }

  onnx::ModelProto& model_;
  std::mt19937_64& random_;
};

}  // namespace

Input mutate_model(std::span<const uint8_t> bytes, std::mt19937_64& random) {
  onnx::ModelProto model;
  if (!model.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph()) {
    return {bytes.begin(), bytes.end()};
  }
  for (size_t n = 1 + random() % 3; n > 0; --n) ModelMutator(model, random).run();
  const std::string out = model.SerializePartialAsString();
  return {out.begin(), out.end()};
}

}  // namespace deepjit::fuzz
