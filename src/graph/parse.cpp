#include "graph/parse.h"

#include <charconv>
#include <cmath>
#include <map>

#include "base/small_types.h"
#include "base/visit.h"
#include "graph/infer.h"
#include "graph/parse_tokens.h"

namespace deepjit {

namespace {

bool looks_like_float(const std::string& text) {
  return text.find_first_of(".n") != std::string::npos ||
         (text.find('e') != std::string::npos && text != "true" && text != "false");
}

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) {}

  std::unique_ptr<Graph> graph() {
    auto graph = std::make_unique<Graph>();
    in_.expect("graph");
    graph->name = in_.name('@');
    in_.expect("(");
    scopes_.emplace_back();
    parameters(*graph);
    in_.expect("->");
    const std::vector<std::string> outputs = output_names();
    in_.expect("{");
    while (!in_.accept("}")) statement(*graph);
    for (const std::string& name : outputs) graph->outputs.push_back(lookup(name));
    if (in_.peek() != '\0') in_.fail("text after the graph");
    return graph;
  }

 private:
  using Scope = std::map<std::string, Value*>;

  Value* lookup(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (auto it = scope->find(name); it != scope->end()) return it->second;
    }
    in_.fail("value %" + name + " is not defined");
  }

  void define(const std::string& name, Value* value) {
    if (value->name != name) in_.fail("value %" + name + " is defined twice");
    scopes_.back()[name] = value;
  }

  // What follows "(": typed inputs up to ")".
  void parameters(Graph& graph) {
    while (!in_.accept(")")) {
      const std::string name = in_.name('%');
      TensorType type;
      if (in_.accept(":")) type = in_.type();
      if (graph.parent() == nullptr && type.dtype == DType::UNDEFINED) in_.fail("input %" + name + " needs a type");
      Value* input = graph.add_input(name, type);
      define(name, input);
      if (in_.accept("=")) input->default_value = tensor_data(type);
      in_.accept(",");
    }
  }

  std::vector<std::string> output_names() {
    std::vector<std::string> names;
    in_.expect("(");
    while (!in_.accept(")")) {
      names.push_back(in_.name('%'));
      in_.accept(",");
    }
    return names;
  }

  void statement(Graph& graph) {
    std::vector<std::string> names;
    std::vector<TensorType> types;
    do {
      names.push_back(in_.accept("_") ? "" : in_.name('%'));
      types.push_back(in_.accept(":") ? in_.type() : TensorType{});
    } while (in_.accept(","));
    in_.expect("=");
    const std::string op = in_.word();
    if (op == "constant") {
      const TensorType type = in_.type();
      define(names[0], graph.add_constant(tensor_data(type), names[0]));
      return;
    }
    node(graph, op, names);
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].empty()) scopes_.back()[names[i]]->type = types[i];
    }
  }

  void node(Graph& graph, const std::string& op, const std::vector<std::string>& names) {
    in_.expect("(");
    std::vector<Value*> inputs;
    while (!in_.accept(")")) {
      inputs.push_back(in_.accept("_") ? nullptr : lookup(in_.name('%')));
      in_.accept(",");
    }
    Attributes attrs;
    if (in_.accept("{")) {
      while (!in_.accept("}")) {
        const std::string key = in_.word();
        in_.expect("=");
        attrs.set(key, attribute());
        in_.accept(",");
      }
    }
    const std::string name = in_.peek() == '@' ? in_.name('@') : op;
    Node* made = graph.add_node(op, name, inputs, attrs, names);
    while (in_.accept("then") || in_.accept("else") || in_.accept("body")) body(*graph.add_body(made));
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) {
        graph.drop_output(made, i);
      } else {
        define(names[i], made->outputs[i]);
      }
    }
  }

  void body(Graph& graph) {
    scopes_.emplace_back();
    if (in_.accept("(")) parameters(graph);
    in_.expect("{");
    while (!in_.accept("->")) statement(graph);
    for (const std::string& name : output_names()) graph.outputs.push_back(lookup(name));
    in_.expect("}");
    scopes_.pop_back();
  }

  Attribute attribute() {
    const char next = in_.peek();
    if (next == '"') return in_.quoted();
    if (in_.accept("floats")) return in_.expect("["), in_.expect("]"), std::vector<float>{};
    if (in_.accept("strings")) return in_.expect("["), in_.expect("]"), std::vector<std::string>{};
    if (in_.accept("[")) return list();
    if (next == '-' || (next >= '0' && next <= '9') || next == 'i' || next == 'n') {
      // "int64[2] [1, 2]" starts like "inf": only a number is not followed by a shape.
      TextCursor saved = in_;
      const std::string text = in_.number();
      if (in_.peek() != '[') {
        if (looks_like_float(text)) return static_cast<float>(real(text));
        return integer<int64_t>(text);
      }
      in_ = saved;
    }
    const TensorType type = in_.type();
    return tensor_data(type);
  }

  // What follows "[" in an attribute: integers, floats or strings.
  Attribute list() {
    std::vector<std::string> texts;
    bool strings = false;
    bool floats = false;
    while (!in_.accept("]")) {
      strings = in_.peek() == '"';
      texts.push_back(strings ? in_.quoted() : in_.number());
      floats = floats || (!strings && looks_like_float(texts.back()));
      in_.accept(",");
    }
    if (strings) return texts;
    std::vector<float> reals;
    std::vector<int64_t> integers;
    for (const std::string& text : texts) {
      if (floats) {
        reals.push_back(static_cast<float>(real(text)));
      } else {
        integers.push_back(integer<int64_t>(text));
      }
    }
    if (floats) return reals;
    return integers;
  }

  double real(const std::string& text) {
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) in_.fail("not a number: " + text);
    return value;
  }

  template <typename T>
  T integer(const std::string& text) {
    if (text == "true" || text == "false") return static_cast<T>(text == "true");
    T value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) in_.fail("not an integer: " + text);
    return value;
  }

  Tensor tensor_data(const TensorType& type) {
    const auto dims = type.shape.as_const();
    if (type.element != nullptr) in_.fail("a constant is a tensor, not " + type.to_string());
    if (!type.shape.ranked() || !dims) in_.fail("a constant needs a constant shape, not " + type.to_string());
    if (in_.accept("hash")) in_.fail("a constant printed as a hash cannot be read back; give its data");
    Tensor tensor(type.dtype, *dims);
    if (in_.accept("random")) return random(tensor), tensor;
    if (in_.accept("iota")) return fill(tensor, [](int64_t i) { return static_cast<double>(i); }), tensor;
    if (in_.accept("fill")) {
      in_.expect("(");
      const double value = real(in_.number());
      in_.expect(")");
      return fill(tensor, [&](int64_t) { return value; }), tensor;
    }
    in_.expect("[");
    for (int64_t i = 0; i < tensor.count(); ++i) {
      element(tensor, static_cast<size_t>(i));
      in_.accept(",");
    }
    if (!in_.accept("]")) in_.fail("more elements than " + type.to_string() + " holds");
    return tensor;
  }

  void element(const Tensor& tensor, size_t i) {
    if (in_.peek() == ']') in_.fail("too few elements for " + dtype_and_dims(tensor));
    if (tensor.dtype() == DType::STRING) {
      tensor.as<std::string>()[i] = in_.quoted();
      return;
    }
    const std::string text = in_.number();
    if (dtype_size(tensor.dtype()) == 1 && !is_integer(tensor.dtype())) {  // bool and small floats: bytes
      tensor.as<uint8_t>()[i] = integer<uint8_t>(text);
      return;
    }
    visit_numeric(tensor.dtype(), "constant", [&]<typename T>() {
      if constexpr (std::is_integral_v<T>) {
        tensor.as<T>()[i] = integer<T>(text);
      } else {
        tensor.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(real(text)));
      }
    });
  }

  static std::string dtype_and_dims(const Tensor& tensor) {
    return TensorType{tensor.dtype(), Shape(tensor.dims())}.to_string();
  }

  template <typename F>
  void fill(const Tensor& tensor, F&& f) {
    if (tensor.dtype() == DType::BOOL) {
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.as<uint8_t>()[i] = f(i) != 0;
      return;
    }
    visit_numeric(tensor.dtype(), "constant", [&]<typename T>() {
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(f(i)));
    });
  }

  void random(const Tensor& tensor) {
    const bool real_type = is_float(tensor.dtype());
    double low = real_type ? -1 : 0;
    double high = tensor.dtype() == DType::BOOL ? 2 : real_type ? 1 : 10;
    if (is_packed(tensor.dtype()) && !real_type) high = static_cast<double>(integer_range(tensor.dtype()).high) + 1;
    in_.expect("(");
    auto state = static_cast<uint64_t>(real(in_.number()));
    if (in_.accept(",")) {
      low = real(in_.number());
      in_.expect(",");
      high = real(in_.number());
    }
    in_.expect(")");
    fill(tensor, [&](int64_t) {  // splitmix64
      uint64_t z = state += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      const double unit = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
      const double value = low + unit * (high - low);
      return real_type ? value : static_cast<double>(static_cast<int64_t>(std::floor(value)));
    });
  }

  TextCursor in_;
  std::vector<Scope> scopes_;
};

// Types written after node outputs must agree with what inference says; they may also say more.
void check_annotations(const Graph& graph, const std::vector<std::pair<const Value*, TensorType>>& annotations) {
  for (const auto& [value, type] : annotations) {
    if (type.dtype == DType::UNDEFINED || type.dtype == value->type.dtype) continue;
    throw Error(Code::PARSE, "value %" + value->name + " is written as " + type.to_string() + " but is " +
                                 value->type.to_string() + " in graph " + graph.name);
  }
}

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text) {
  std::unique_ptr<Graph> graph = Parser(text).graph();
  std::vector<std::pair<const Value*, TensorType>> annotations;
  for_each_graph(*graph, [&](Graph& g) {
    g.for_each_value([&](const Value* v) {
      if (v->producer != nullptr) annotations.emplace_back(v, v->type);
    });
  });
  infer_types(*graph);
  check_annotations(*graph, annotations);
  return graph;
}

}  // namespace deepjit
