// A symbolic dimension: an integer expression over named symbols, kept in a normal form.
//
// A Dim is a polynomial with integer coefficients over atoms; an atom is a symbol ("N", "?3") or a
// floordiv, min or max of two Dims. Two Dims that denote the same polynomial compare equal, so "N*196"
// and "(H-1)//2+1" stay exact through Conv, Reshape, Concat and Slice. Symbols stand for integers >= 0.
// A dimension nobody knows is a fresh symbol; there is no separate "unknown".
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"

namespace deepjit {

class Dim {
 public:
  Dim(int64_t value = 0);  // NOLINT: implicit on purpose, constants mix with symbols
  static Dim symbol(std::string name);
  // Parses what to_string prints. Throws Error(PARSE).
  static Dim parse(std::string_view text);

  bool is_const() const { return terms_.empty(); }
  // The constant's value; only when is_const().
  int64_t value() const;
  std::optional<int64_t> as_const() const;
  bool is_symbol() const;         // exactly one symbol, nothing else
  std::string to_string() const;  // "N*196", "(H-1)//2+1", "max(N,1)"

  bool operator==(const Dim& other) const;
  bool operator==(int64_t other) const { return is_const() && value() == other; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  // Rounds towards minus infinity; b must be positive (a constant b <= 0 throws INTERNAL).
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim ceildiv(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);

  // a / b when b divides a exactly as polynomials (N*196 / 196, N*H / H), else nothing.
  static std::optional<Dim> exact_div(const Dim& a, const Dim& b);

  // Values at lookup(symbol); nothing when a symbol is not known.
  using Lookup = std::function<std::optional<int64_t>(const std::string&)>;
  std::optional<int64_t> evaluate(const Lookup& lookup) const;
  // Replaces symbols by expressions where `lookup` gives one.
  Dim substitute(const std::function<std::optional<Dim>(const std::string&)>& lookup) const;
  void collect_symbols(std::vector<std::string>& out) const;
  // A bound that holds for all values >= 0 of the symbols, when one is known.
  std::optional<int64_t> lower_bound() const;

  struct Atom;

 private:
  struct Term {
    int64_t coefficient;
    std::vector<std::shared_ptr<const Atom>> atoms;  // sorted by key, never empty
  };
  int64_t constant_ = 0;
  std::vector<Term> terms_;  // sorted by key, coefficients nonzero
  static Dim from_atom(std::shared_ptr<const Atom> atom);
  static std::string term_key(const Term& term);
  void add_term(Term term);
  friend class DimParser;
};

// A tensor's shape as the compiler knows it: unranked, or a list of Dims.
class Shape {
 public:
  Shape() = default;                                                       // unranked
  Shape(std::vector<Dim> dims) : ranked_(true), dims_(std::move(dims)) {}  // NOLINT: implicit on purpose
  explicit Shape(const Dims& dims) : ranked_(true), dims_(dims.begin(), dims.end()) {}

  bool ranked() const { return ranked_; }
  int rank() const { return static_cast<int>(dims_.size()); }  // only when ranked()
  const Dim& operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  Dim& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  const std::vector<Dim>& dims() const { return dims_; }
  std::optional<Dims> as_const() const;  // all dims constant
  Dim count() const;                     // product; only when ranked()
  bool operator==(const Shape&) const = default;
  std::string to_string() const;  // "[N,3,H,W]"; "[*]" when unranked

 private:
  bool ranked_ = false;
  std::vector<Dim> dims_;
};

// The type of a value. For a SEQUENCE (of tensors) and an OPTIONAL (of a tensor or a sequence), `shape` is [n] and
// `element` the type that all elements share, unranked or symbolic where they differ.
struct TensorType {
  DType dtype = DType::UNDEFINED;
  Shape shape;
  std::shared_ptr<const TensorType> element = nullptr;

  bool operator==(const TensorType& other) const;
  std::string to_string() const;  // "float32[N,3,H,W]", "sequence[n](float32[*])"
};

}  // namespace deepjit
