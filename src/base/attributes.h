// The named attributes of a node or step.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "base/tensor.h"

namespace deepjit {

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor>;

class Attributes {
 public:
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  void set(const std::string& name, Attribute value) { values_[name] = std::move(value); }
  void erase(const std::string& name) { values_.erase(name); }
  const std::map<std::string, Attribute>& all() const { return values_; }
  bool operator==(const Attributes& other) const;

  // Each getter returns the attribute, or the default when it is absent.
  // An attribute of another type throws Error(ATTRIBUTE) with its name.
  int64_t get_int(const std::string& name, int64_t fallback) const;
  float get_float(const std::string& name, float fallback) const;
  std::string get_string(const std::string& name, const std::string& fallback) const;
  std::vector<int64_t> get_ints(const std::string& name, const std::vector<int64_t>& fallback = {}) const;
  std::vector<float> get_floats(const std::string& name, const std::vector<float>& fallback = {}) const;
  std::vector<std::string> get_strings(const std::string& name, const std::vector<std::string>& fallback = {}) const;
  const Tensor* get_tensor(const std::string& name) const;  // nullptr when absent
  // Like get_int, but an absent attribute throws Error(ATTRIBUTE).
  int64_t require_int(const std::string& name) const;

 private:
  std::map<std::string, Attribute> values_;
};

std::string attribute_to_string(const Attribute& value);

}  // namespace deepjit
