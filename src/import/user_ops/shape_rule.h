// The shape rule of a user op: what its results' shapes are, from those of its operands.
//
//   ""                        whatever the expression yields: operands broadcast, reduced rows keep a dim of size 1
//   "x"                       every result is shaped like the input x
//   "[N, C], [C] -> [N, 1]"   a pattern an input, then one an output; a dim is a name, a number or an expression of
//   names;
//                             a leading ... stands for any dims, the same ones everywhere
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dim.h"

namespace deepjit {

struct ShapePattern {
  bool leading = false;  // starts with "..."
  std::vector<Dim> dims;
};

class ShapeRule {
 public:
  // Throws ARGUMENT for text that is no rule, or one that does not fit the inputs and outputs.
  static ShapeRule parse(const std::string& text, const std::vector<std::string>& inputs, size_t outputs);

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  std::optional<size_t> same_as() const { return same_as_; }
  const std::vector<ShapePattern>& inputs() const { return inputs_; }

  // Checks the outputs' shapes. Throws SHAPE_MISMATCH, with both, when one is certainly another; exact: unless it is
  // certainly the same. Unknown ranks are left alone.
  void check(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
             const std::vector<std::string>& output_names, bool exact = false) const;

 private:
  std::vector<std::optional<Shape>> expected(const std::vector<Shape>& inputs) const;

  std::string text_;
  std::optional<size_t> same_as_;
  std::vector<ShapePattern> inputs_;
  std::vector<ShapePattern> outputs_;
};

}  // namespace deepjit
