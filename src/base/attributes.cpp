#include "base/attributes.h"

namespace deepjit {

namespace {

template <typename T>
T get(const std::map<std::string, Attribute>& values, const std::string& name, const T& fallback, const char* kind) {
  auto it = values.find(name);
  if (it == values.end()) return fallback;
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) throw Error(Code::ATTRIBUTE, "attribute \"" + name + "\" must be " + kind);
  return *value;
}

bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const Tensor* ta = std::get_if<Tensor>(&a)) return ta->same_as(std::get<Tensor>(b));
  return attribute_to_string(a) == attribute_to_string(b);
}

template <typename T, typename F>
std::string list(const std::vector<T>& values, F&& text) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? "," : "") + text(values[i]);
  return out + "]";
}

std::string float_text(float value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", static_cast<double>(value));
  std::string text = buffer;
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

bool Attributes::operator==(const Attributes& other) const {
  if (values_.size() != other.values_.size()) return false;
  for (auto a = values_.begin(), b = other.values_.begin(); a != values_.end(); ++a, ++b) {
    if (a->first != b->first || !same(a->second, b->second)) return false;
  }
  return true;
}

int64_t Attributes::get_int(const std::string& name, int64_t fallback) const {
  return get(values_, name, fallback, "an integer");
}
float Attributes::get_float(const std::string& name, float fallback) const {
  return get(values_, name, fallback, "a float");
}
std::string Attributes::get_string(const std::string& name, const std::string& fallback) const {
  return get(values_, name, fallback, "a string");
}
std::vector<int64_t> Attributes::get_ints(const std::string& name, const std::vector<int64_t>& fallback) const {
  return get(values_, name, fallback, "a list of integers");
}
std::vector<float> Attributes::get_floats(const std::string& name, const std::vector<float>& fallback) const {
  return get(values_, name, fallback, "a list of floats");
}
std::vector<std::string> Attributes::get_strings(const std::string& name,
                                                 const std::vector<std::string>& fallback) const {
  return get(values_, name, fallback, "a list of strings");
}

const Tensor* Attributes::get_tensor(const std::string& name) const {
  auto it = values_.find(name);
  if (it == values_.end()) return nullptr;
  const Tensor* value = std::get_if<Tensor>(&it->second);
  if (value == nullptr) throw Error(Code::ATTRIBUTE, "attribute \"" + name + "\" must be a tensor");
  return value;
}

int64_t Attributes::require_int(const std::string& name) const {
  if (!has(name)) throw Error(Code::ATTRIBUTE, "attribute \"" + name + "\" is required");
  return get_int(name, 0);
}

std::string attribute_to_string(const Attribute& value) {
  auto int_text = [](int64_t v) { return std::to_string(v); };
  switch (value.index()) {
    case 0:
      return int_text(std::get<int64_t>(value));
    case 1:
      return float_text(std::get<float>(value));
    case 2:
      return quoted(std::get<std::string>(value));
    case 3:
      return list(std::get<3>(value), int_text);
    case 4:
      return list(std::get<4>(value), float_text);
    case 5:
      return list(std::get<5>(value), quoted);
    default: {
      const Tensor& t = std::get<Tensor>(value);
      return "<" + std::string(dtype_name(t.dtype())) + t.dims().to_string() + ">";
    }
  }
}

}  // namespace deepjit
