#include "doctor/view.h"

#include <map>

#include "graph/graph.h"
#include "import/onnx/external_data.h"
#include "import/onnx/tensor.h"

namespace deepjit::doctor {

namespace {

// Names that `graph` reads from around it.
void free_reads(const onnx::GraphProto& graph, std::vector<std::string>& out) {
  std::unordered_set<std::string> own;
  for (const auto& info : graph.input()) own.insert(info.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) own.insert(tensor.values().name());
  for (const auto& node : graph.node()) own.insert(node.output().begin(), node.output().end());
  std::vector<std::string> reads;
  for (const auto& node : graph.node()) {
    reads.insert(reads.end(), node.input().begin(), node.input().end());
    for (const auto& a : node.attribute()) {
      if (a.has_g()) free_reads(a.g(), reads);
      for (const auto& g : a.graphs()) free_reads(g, reads);
    }
  }
  for (const auto& info : graph.output()) reads.push_back(info.name());
  for (const std::string& name : reads) {
    if (!name.empty() && own.count(name) == 0) out.push_back(name);
  }
}

}  // namespace

GraphView::GraphView(const onnx::GraphProto& proto, int index, const GraphView* outer)
    : proto_(proto), index_(index), outer_(outer) {
  for (const auto& info : proto.input()) inputs_.insert(info.name());
  for (const auto& info : proto.output()) outputs_.insert(info.name());
  for (const auto& tensor : proto.initializer()) initializers_[tensor.name()] = &tensor;
  int position = 0;
  for (const auto& node : proto.node()) {
    positions_[&node] = position++;
    for (const std::string& name : node.output()) {
      if (!name.empty()) producers_.emplace(name, &node);
    }
    for (const std::string& name : node.input()) {
      if (!name.empty()) readers_[name].push_back(&node);
    }
    std::vector<std::string> inside;
    for (const auto& a : node.attribute()) {
      if (a.has_g()) free_reads(a.g(), inside);
      for (const auto& g : a.graphs()) free_reads(g, inside);
    }
    for (const std::string& name : inside) readers_[name].push_back(&node);
  }
}

const onnx::NodeProto* GraphView::producer(const std::string& value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

const Nodes& GraphView::readers(const std::string& value) const {
  static const Nodes none;
  const auto found = readers_.find(value);
  return found == readers_.end() ? none : found->second;
}

bool GraphView::defines(const std::string& value) const {
  return is_input(value) || is_initializer(value) || producer(value) != nullptr;
}

const onnx::NodeProto* GraphView::only_reader(const std::string& value) const {
  const Nodes& nodes = readers(value);
  return nodes.size() == 1 && !is_output(value) ? nodes.front() : nullptr;
}

std::string GraphView::name_of(const onnx::NodeProto& node) const {
  return node.name().empty() ? node.op_type() + "_" + std::to_string(position(&node)) : node.name();
}

const onnx::TensorProto* GraphView::initializer(const std::string& value) const {
  const auto found = initializers_.find(value);
  return found == initializers_.end() ? nullptr : found->second;
}

struct ModelView::Cache {
  explicit Cache(const ImportOptions& options) : external(options) {}
  importer::ExternalData external;
  std::map<std::pair<int, std::string>, Tensor> constants;  // undefined: not a constant
  bool imported = false;
  ImportedModel model;
  std::optional<Error> failure;
  std::unordered_map<std::string, const Value*> values;
};

ModelView::ModelView(const onnx::ModelProto& proto, const std::string& folder) : proto_(proto), folder_(folder) {
  options_.folder = folder;
  cache_ = std::make_unique<Cache>(options_);
  for (const auto& entry : proto.opset_import()) {
    if (entry.domain().empty() || entry.domain() == "ai.onnx") opset_ = entry.version();
  }
  for (const auto& f : proto.functions()) functions_.insert(f.domain() + "::" + f.name());
  add_graph(proto.graph(), nullptr);
}

ModelView::~ModelView() = default;

void ModelView::add_graph(const onnx::GraphProto& graph, const GraphView* outer) {
  graphs_.push_back(std::make_unique<GraphView>(graph, static_cast<int>(graphs_.size()), outer));
  const GraphView* view = graphs_.back().get();
  std::unordered_set<std::string> own;
  for (const auto& info : graph.input()) own.insert(info.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& node : graph.node()) own.insert(node.output().begin(), node.output().end());
  for (const std::string& name : own) {
    if (!names_.insert(name).second) twice_.insert(name);
  }
  for (const auto& node : graph.node()) {
    for (const auto& a : node.attribute()) {
      if (a.has_g()) add_graph(a.g(), view);
      for (const auto& g : a.graphs()) add_graph(g, view);
    }
  }
}

bool ModelView::is_function(const onnx::NodeProto& node) const {
  return functions_.count(node.domain() + "::" + node.op_type()) != 0;
}

const Tensor* ModelView::constant(const GraphView& graph, const std::string& value) const {
  if (value.empty()) return nullptr;
  for (const GraphView* g = &graph; g != nullptr; g = g->outer()) {
    if (g->defines(value)) return read(*g, value);
  }
  return nullptr;
}

const Tensor* ModelView::read(const GraphView& graph, const std::string& value) const {
  const auto key = std::make_pair(graph.index(), value);
  const auto found = cache_->constants.find(key);
  if (found != cache_->constants.end()) return found->second.defined() ? &found->second : nullptr;
  cache_->constants[key] = Tensor();  // while it is read: a cycle of Identities has no value
  Tensor tensor;
  try {
    const onnx::NodeProto* node = graph.producer(value);
    if (const onnx::TensorProto* proto = graph.initializer(value)) {
      const bool overridable = graph.is_input(value) && proto_.ir_version() >= 4;
      if (!overridable) tensor = importer::tensor_from_proto(*proto, cache_->external);
    } else if (is(node, "Identity")) {
      if (const Tensor* source = constant(graph, input_of(*node, 0))) tensor = *source;
    } else if (is(node, "Constant") && node->attribute_size() == 1) {
      const auto& a = node->attribute(0);
      if (a.name() == "value" && a.has_t()) tensor = importer::tensor_from_proto(a.t(), cache_->external);
      if (a.name() == "value_float") tensor = Tensor::scalar_f32(a.f());
      if (a.name() == "value_int") tensor = Tensor::vector_i64(std::vector<int64_t>{a.i()}).reshaped({});
      if (a.name() == "value_ints") tensor = Tensor::vector_i64(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
      if (a.name() == "value_floats") {
        const std::vector<float> data(a.floats().begin(), a.floats().end());
        tensor = Tensor::from<float>(DType::FLOAT32, Dims{static_cast<int64_t>(data.size())}, data);
      }
    }
  } catch (const Error&) {
    // The import reports it.
  }
  Tensor& kept = cache_->constants[key];
  kept = std::move(tensor);
  return kept.defined() ? &kept : nullptr;
}

std::optional<double> ModelView::scalar(const GraphView& graph, const std::string& value) const {
  const Tensor* tensor = constant(graph, value);
  if (tensor == nullptr || tensor->count() != 1 || is_object(tensor->dtype())) return std::nullopt;
  try {
    return tensor->to_f64().at(0);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::vector<int64_t>> ModelView::integers(const GraphView& graph, const std::string& value) const {
  const Tensor* tensor = constant(graph, value);
  if (tensor == nullptr || (!is_integer(tensor->dtype()) && tensor->dtype() != DType::BOOL)) return std::nullopt;
  return tensor->to_i64();
}

void ModelView::import() const {
  if (cache_->imported) return;
  cache_->imported = true;
  try {
    const std::string bytes = proto_.SerializePartialAsString();
    cache_->model = import_onnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options_);
  } catch (const Error& e) {
    cache_->failure = e;
    cache_->model = {};
    return;
  }
  for_each_graph(*cache_->model.graph, [&](const Graph& graph) {
    graph.for_each_value([&](const Value* value) { cache_->values.emplace(value->name, value); });
  });
}

const Value* ModelView::inferred(const std::string& name) const {
  import();
  const auto found = cache_->values.find(name);
  return found == cache_->values.end() || twice_.count(name) != 0 ? nullptr : found->second;
}

const std::optional<Error>& ModelView::failure() const {
  import();
  return cache_->failure;
}

TensorType ModelView::type(const GraphView& graph, const std::string& name) const {
  if (const Value* value = inferred(name)) return value->type;
  const auto declared = [&](const auto& list) -> TensorType {
    for (const auto& info : list) {
      if (info.name() != name || !info.type().has_tensor_type()) continue;
      const auto& tensor = info.type().tensor_type();
      TensorType type;
      try {
        type.dtype = importer::dtype_from_onnx(tensor.elem_type());
      } catch (const Error&) {
        return {};
      }
      if (!tensor.has_shape() || tensor.shape().dim_size() > kMaxRank) return type;
      std::vector<Dim> dims;
      for (const auto& d : tensor.shape().dim()) {
        dims.push_back(d.has_dim_value() ? Dim(d.dim_value()) : Dim::symbol("?" + name + std::to_string(dims.size())));
      }
      type.shape = Shape(std::move(dims));
      return type;
    }
    return {};
  };
  for (const GraphView* g = &graph; g != nullptr; g = g->outer()) {
    const Tensor* tensor = g->is_initializer(name) ? constant(*g, name) : nullptr;
    if (tensor != nullptr) return {tensor->dtype(), Shape(tensor->dims())};
    for (const auto* list : {&g->proto().value_info(), &g->proto().input(), &g->proto().output()}) {
      TensorType type = declared(*list);
      if (type.dtype != DType::UNDEFINED) return type;
    }
  }
  return {};
}

std::unordered_set<std::string> ModelView::input_symbols(bool first_only) const {
  std::unordered_set<std::string> symbols;
  for (const auto& info : main().proto().input()) {
    const Value* value = inferred(info.name());
    if (value == nullptr || !value->type.shape.ranked()) continue;
    for (int i = 0; i < value->type.shape.rank() && (i == 0 || !first_only); ++i) {
      std::vector<std::string> names;
      value->type.shape[i].collect_symbols(names);
      symbols.insert(names.begin(), names.end());
    }
  }
  return symbols;
}

bool default_domain(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

bool is(const onnx::NodeProto* node, const char* op) {
  return node != nullptr && node->op_type() == op && default_domain(*node);
}

const onnx::AttributeProto* attribute(const onnx::NodeProto& node, const char* name) {
  for (const auto& a : node.attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

int64_t int_attribute(const onnx::NodeProto& node, const char* name, int64_t fallback) {
  const onnx::AttributeProto* a = attribute(node, name);
  return a == nullptr ? fallback : a->i();
}

std::optional<std::vector<int64_t>> ints_attribute(const onnx::NodeProto& node, const char* name) {
  const onnx::AttributeProto* a = attribute(node, name);
  if (a == nullptr) return std::nullopt;
  return std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

const std::string& input_of(const onnx::NodeProto& node, int i) {
  static const std::string none;
  return i < node.input_size() ? node.input(i) : none;
}

const std::string& output_of(const onnx::NodeProto& node, int i) {
  static const std::string none;
  return i < node.output_size() ? node.output(i) : none;
}

std::string counted(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace deepjit::doctor
