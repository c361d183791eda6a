#include "graph/print.h"

#include <charconv>
#include <cmath>

#include "base/small_types.h"
#include "base/visit.h"

namespace deepjit {

namespace {

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

bool plain_name(const std::string& name) {
  if (name.empty()) return false;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '_' && c != '.' && c != '/' && c != '-') return false;
  }
  return true;
}

std::string with_sigil(char sigil, const std::string& name) { return sigil + (plain_name(name) ? name : quote(name)); }

// The shortest text that reads back to the same number.
template <typename T>
std::string number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return std::string(buffer, end);
}

std::string float_attribute(float value) {
  std::string text = number(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string element(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::STRING:
      return quote(tensor.as<std::string>()[i]);
    case DType::BOOL:
      return tensor.as<uint8_t>()[i] != 0 ? "true" : "false";
    default:
      break;
  }
  if (is_small_float(tensor.dtype())) return number(static_cast<int>(tensor.as<uint8_t>()[i]));
  std::string out;
  visit_numeric(tensor.dtype(), "print", [&]<typename T>() {
    const auto value = load_as_compute(tensor.as<T>()[i]);
    if constexpr (sizeof(value) == 1) {
      out = number(static_cast<int>(value));
    } else {
      out = number(value);
    }
  });
  return out;
}

uint64_t hash_bytes(const Tensor& tensor) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](const unsigned char* data, size_t size) {
    for (size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x100000001b3u;
  };
  if (tensor.dtype() == DType::STRING) {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const std::string& s = tensor.as<std::string>()[i];
      add(reinterpret_cast<const unsigned char*>(s.data()), s.size() + 1);
    }
  } else {
    add(tensor.as<unsigned char>(), static_cast<size_t>(tensor.bytes()));
  }
  return hash;
}

std::string tensor_data(const Tensor& tensor, const PrintOptions& options) {
  if (tensor.count() > options.max_elements) {
    char buffer[24];
    const auto end = std::to_chars(buffer, buffer + sizeof(buffer), hash_bytes(tensor), 16).ptr;
    return "hash(0x" + std::string(buffer, end) + ")";
  }
  std::string out = "[";
  for (int64_t i = 0; i < tensor.count(); ++i) out += (i ? ", " : "") + element(tensor, static_cast<size_t>(i));
  return out + "]";
}

std::string tensor_text(const Tensor& tensor, const PrintOptions& options) {
  return TensorType{tensor.dtype(), Shape(tensor.dims())}.to_string() + " " + tensor_data(tensor, options);
}

template <typename T, typename F>
std::string list(const std::vector<T>& items, const char* empty, F&& f) {
  if (items.empty()) return empty;
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i ? "," : "") + f(items[i]);
  return out + "]";
}

struct AttributePrinter {
  const PrintOptions& options;
  std::string operator()(int64_t v) const { return number(v); }
  std::string operator()(float v) const { return float_attribute(v); }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const std::vector<int64_t>& v) const { return list(v, "[]", number<int64_t>); }
  std::string operator()(const std::vector<float>& v) const { return list(v, "floats[]", float_attribute); }
  std::string operator()(const std::vector<std::string>& v) const { return list(v, "strings[]", quote); }
  std::string operator()(const Tensor& v) const { return tensor_text(v, options); }
};

std::string value_name(const Value* value) { return value == nullptr ? "_" : with_sigil('%', value->name); }

std::string typed(const Value* value, const PrintOptions& options) {
  if (value == nullptr) return "_";
  return value_name(value) + (options.types ? ": " + value->type.to_string() : "");
}

std::string names(const std::vector<Value*>& values) {
  std::string out = "(";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + value_name(values[i]);
  return out + ")";
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string graph(const Graph& graph) {
    out_ = "graph " + with_sigil('@', graph.name.empty() ? "main" : graph.name) + "(";
    parameters(graph);
    out_ += ") -> " + names(graph.outputs) + " {\n";
    statements(graph, "  ");
    return out_ + "}\n";
  }

  std::string head(const Node& node) const {
    std::string out;
    for (size_t i = 0; i < node.outputs.size(); ++i) out += (i ? ", " : "") + typed(node.outputs[i], options_);
    out += " = " + node.op + names(node.inputs);
    std::string attrs;
    for (const auto& [name, value] : node.attrs.all()) {
      attrs += (attrs.empty() ? "" : ", ") + name + "=" + std::visit(AttributePrinter{options_}, value);
    }
    if (!attrs.empty()) out += " {" + attrs + "}";
    if (options_.node_names && node.name != node.op) out += " " + with_sigil('@', node.name);
    return out;
  }

 private:
  void parameters(const Graph& graph) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value* input = graph.inputs[i];
      out_ += (i ? ", " : "") + value_name(input) + ": " + input->type.to_string();
      if (input->default_value.defined()) out_ += " = " + tensor_data(input->default_value, options_);
    }
  }

  void statements(const Graph& graph, const std::string& indent) {
    graph.for_each_value([&](const Value* value) {
      if (!value->is_constant()) return;
      out_ += indent + value_name(value) + " = constant " + tensor_text(value->constant, options_) + "\n";
    });
    for (const auto& node : graph.nodes()) {
      out_ += indent + head(*node);
      for (size_t i = 0; i < node->bodies.size(); ++i) body(*node, i, indent);
      out_ += "\n";
    }
  }

  void body(const Node& node, size_t i, const std::string& indent) {
    const Graph& graph = *node.bodies[i];
    out_ += node.op != "If" ? " body" : i == 0 ? " then" : " else";
    if (!graph.inputs.empty()) {
      out_ += "(";
      parameters(graph);
      out_ += ")";
    }
    out_ += " {\n";
    statements(graph, indent + "  ");
    out_ += indent + "  -> " + names(graph.outputs) + "\n" + indent + "}";
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string print_graph(const Graph& graph, const PrintOptions& options) { return Printer(options).graph(graph); }
std::string print_node(const Node& node, const PrintOptions& options) { return Printer(options).head(node); }

}  // namespace deepjit
