#include "import/user_ops/shape_rule.h"

#include <algorithm>
#include <map>

namespace deepjit {

namespace {

[[noreturn]] void bad(const std::string& text, const std::string& why) {
  throw Error(Code::ARGUMENT, "the shape rule \"" + text + "\" " + why,
              "write an input's name, or patterns like \"[N, C], [C] -> [N, 1]\"");
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
}

ShapePattern parse_pattern(const std::string& text, const std::string& rule) {
  ShapePattern pattern;
  size_t start = 0;
  while (start <= text.size() && !trimmed(text).empty()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string word = trimmed(text.substr(start, end - start));
    if (word == "..." && start == 0) {
      pattern.leading = true;
    } else {
      try {
        pattern.dims.push_back(Dim::parse(word));
      } catch (const Error&) {
        bad(rule, "has a dim \"" + word + "\" that is not understood");
      }
    }
    start = end + 1;
  }
  if (pattern.dims.size() > static_cast<size_t>(kMaxRank)) bad(rule, "has a pattern of more than 16 dims");
  return pattern;
}

// "[N, C], [C]"
std::vector<ShapePattern> parse_patterns(const std::string& text, const std::string& rule) {
  std::vector<ShapePattern> patterns;
  size_t at = text.find_first_not_of(" \t\n\r");
  while (at != std::string::npos && at < text.size()) {
    const size_t end = text.find(']', at);
    if (text[at] != '[' || end == std::string::npos) bad(rule, "has no [ ] around a pattern");
    patterns.push_back(parse_pattern(text.substr(at + 1, end - at - 1), rule));
    at = text.find_first_not_of(" \t\n\r", end + 1);
    if (at == std::string::npos) break;
    if (text[at] != ',') bad(rule, "has no comma between two patterns");
    at = text.find_first_not_of(" \t\n\r", at + 1);
  }
  return patterns;
}

bool differs(const Dim& a, const Dim& b, bool exact) {
  return exact ? !(a == b) : a.is_const() && b.is_const() && a.value() != b.value();
}

bool differs(const Shape& a, const Shape& b, bool exact) {
  if (!a.ranked() || !b.ranked()) return false;
  if (a.rank() != b.rank()) return true;
  for (int i = 0; i < a.rank(); ++i) {
    if (differs(a[i], b[i], exact)) return true;
  }
  return false;
}

// What the names of a rule stand for, found by laying its patterns over shapes.
struct Bindings {
  std::map<std::string, Dim> names;
  std::optional<std::vector<Dim>> leading;
  bool complete = true;

  void lay(const ShapePattern& pattern, const Shape& shape, size_t input, const std::string& rule) {
    if (!shape.ranked()) {
      complete = false;
      return;
    }
    const int own = static_cast<int>(pattern.dims.size());
    const int before = shape.rank() - own;
    bool fits = pattern.leading ? before >= 0 : before == 0;
    if (fits && pattern.leading) {
      std::vector<Dim> dims(shape.dims().begin(), shape.dims().begin() + before);
      if (leading) fits = !differs(Shape(*leading), Shape(dims), false);
      if (!leading) leading = std::move(dims);
    }
    for (int i = 0; fits && i < own; ++i) {
      const Dim& dim = pattern.dims[static_cast<size_t>(i)];
      const Dim& got = shape[before + i];
      if (!dim.is_symbol()) {
        fits = !differs(dim, got, false);
        continue;
      }
      const auto [it, added] = names.emplace(dim.to_string(), got);
      fits = added || !differs(it->second, got, false);
      if (!added && got.is_const()) it->second = got;
    }
    if (!fits) {
      throw Error(Code::SHAPE_MISMATCH,
                  "input " + std::to_string(input) + " has shape " + shape.to_string() + ", the op's rule is " + rule);
    }
  }

  Shape filled(const ShapePattern& pattern) const {
    std::vector<Dim> dims;
    if (pattern.leading) dims = *leading;
    for (const Dim& dim : pattern.dims) {
      dims.push_back(dim.substitute([&](const std::string& name) -> std::optional<Dim> { return names.at(name); }));
    }
    return Shape(std::move(dims));
  }
};

void check_names(const ShapeRule& rule, const std::vector<ShapePattern>& outputs) {
  std::vector<std::string> bound;
  bool leading = false;
  for (const ShapePattern& pattern : rule.inputs()) {
    leading |= pattern.leading;
    for (const Dim& dim : pattern.dims) {
      if (!dim.is_symbol() && !dim.is_const()) bad(rule.text(), "computes a dim of an input: " + dim.to_string());
      dim.collect_symbols(bound);
    }
  }
  for (const ShapePattern& pattern : outputs) {
    if (pattern.leading && !leading) bad(rule.text(), "has ... in a result and in no input");
    std::vector<std::string> used;
    for (const Dim& dim : pattern.dims) dim.collect_symbols(used);
    for (const std::string& name : used) {
      if (std::count(bound.begin(), bound.end(), name) == 0) bad(rule.text(), "has " + name + " in no input");
    }
  }
}

}  // namespace

ShapeRule ShapeRule::parse(const std::string& given, const std::vector<std::string>& inputs, size_t outputs) {
  ShapeRule rule;
  rule.text_ = trimmed(given);
  if (rule.text_.empty()) return rule;
  const auto input = std::find(inputs.begin(), inputs.end(), rule.text_);
  if (input != inputs.end()) {
    rule.same_as_ = static_cast<size_t>(input - inputs.begin());
    return rule;
  }
  const size_t arrow = rule.text_.find("->");
  if (arrow == std::string::npos) bad(rule.text_, "names no input and has no ->");
  rule.inputs_ = parse_patterns(rule.text_.substr(0, arrow), rule.text_);
  rule.outputs_ = parse_patterns(rule.text_.substr(arrow + 2), rule.text_);
  if (rule.inputs_.size() != inputs.size() || rule.outputs_.size() != outputs) {
    bad(rule.text_, "has " + std::to_string(rule.inputs_.size()) + " and " + std::to_string(rule.outputs_.size()) +
                        " patterns for " + std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs) +
                        " outputs");
  }
  check_names(rule, rule.outputs_);
  return rule;
}

std::vector<std::optional<Shape>> ShapeRule::expected(const std::vector<Shape>& inputs) const {
  if (same_as_) return std::vector<std::optional<Shape>>(1, inputs[*same_as_]);
  Bindings bindings;
  for (size_t i = 0; i < inputs_.size(); ++i) bindings.lay(inputs_[i], inputs[i], i, text_);
  std::vector<std::optional<Shape>> shapes(outputs_.size());
  if (!bindings.complete) return shapes;
  for (size_t i = 0; i < outputs_.size(); ++i) shapes[i] = bindings.filled(outputs_[i]);
  return shapes;
}

void ShapeRule::check(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
                      const std::vector<std::string>& output_names, bool exact) const {
  if (empty()) return;
  const std::vector<std::optional<Shape>> wanted = expected(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<Shape>& want = wanted[same_as_ ? 0 : i];
    if (!want || !differs(*want, outputs[i], exact)) continue;
    std::string operands;
    for (const Shape& shape : inputs) operands += (operands.empty() ? "" : ", ") + shape.to_string();
    throw Error(
        Code::SHAPE_MISMATCH,
        "the expression yields " + outputs[i].to_string() + " for output \"" + output_names[i] +
            "\", the op's shape rule " + text_ + " says " + want->to_string() + ", of operands " + operands,
        "mend the rule or the expression: one name in a rule is one size, a dim of size 1 is written 1, and ?1 is "
        "what dims of two names become");
  }
}

}  // namespace deepjit
