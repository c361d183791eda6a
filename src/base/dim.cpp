#include "base/dim.h"

#include <algorithm>
#include <cctype>

#include "base/limits.h"

namespace deepjit {

struct Dim::Atom {
  enum class Kind { SYMBOL, FLOORDIV, MIN, MAX };
  Kind kind;
  std::string key;  // printed form; equal keys mean equal atoms
  Dim a, b;         // operands of FLOORDIV, MIN, MAX
  int depth = 0;    // of nested operations

  bool is_constant_division() const { return kind == Kind::FLOORDIV && b.is_const(); }
  static int depth_of(const Dim& d);
  static std::shared_ptr<const Atom> operation(Kind kind, const Dim& a, const Dim& b, std::string key);
};

namespace {

int64_t checked_sub(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) throw Error(Code::SHAPE_OVERFLOW, "a difference of sizes overflows");
  return out;
}

// For b > 0.
int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

bool simple(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '?'; });
}

std::string wrapped(const Dim& d) {
  const std::string text = d.to_string();
  return simple(text) ? text : "(" + text + ")";
}

// Shape arithmetic can square and nest expressions without end.
void check_limit(size_t size, int64_t limit, const char* what) {
  if (size <= static_cast<size_t>(limit)) return;
  throw Error(Code::LIMIT, std::string("a symbolic dimension has more than ") + std::to_string(limit) + " " + what);
}

}  // namespace

int Dim::Atom::depth_of(const Dim& d) {
  int depth = 0;
  for (const Term& term : d.terms_) {
    for (const auto& atom : term.atoms) depth = std::max(depth, atom->depth);
  }
  return depth;
}

std::shared_ptr<const Dim::Atom> Dim::Atom::operation(Kind kind, const Dim& a, const Dim& b, std::string key) {
  check_limit(key.size(), limits::dim_bytes, "bytes in one of its nested operations");
  const int depth = 1 + std::max(depth_of(a), depth_of(b));
  check_limit(static_cast<size_t>(depth), limits::dim_depth, "nested operations");
  return std::make_shared<Atom>(Atom{kind, std::move(key), a, b, depth});
}

Dim::Dim(int64_t value) : constant_(value) {}

Dim Dim::from_atom(std::shared_ptr<const Atom> atom) {
  Dim d;
  d.terms_.push_back({1, {std::move(atom)}});
  return d;
}

Dim Dim::symbol(std::string name) {
  return from_atom(std::make_shared<Atom>(Atom{Atom::Kind::SYMBOL, std::move(name), {}, {}}));
}

int64_t Dim::value() const {
  check_internal(is_const(), "Dim::value of a symbolic dimension");
  return constant_;
}

std::optional<int64_t> Dim::as_const() const { return is_const() ? std::optional<int64_t>(constant_) : std::nullopt; }

bool Dim::is_symbol() const {
  return constant_ == 0 && terms_.size() == 1 && terms_[0].coefficient == 1 && terms_[0].atoms.size() == 1 &&
         terms_[0].atoms[0]->kind == Atom::Kind::SYMBOL;
}

std::string Dim::term_key(const Term& term) {
  std::string key;
  for (const auto& atom : term.atoms) key += (key.empty() ? "" : "*") + atom->key;
  return key;
}

void Dim::add_term(Term term) {
  if (term.coefficient == 0) return;
  checked_mul(-1, term.coefficient);  // its text has the magnitude
  const std::string key = term_key(term);
  auto it = std::lower_bound(terms_.begin(), terms_.end(), key,
                             [](const Term& t, const std::string& k) { return term_key(t) < k; });
  if (it != terms_.end() && term_key(*it) == key) {
    it->coefficient = checked_add(it->coefficient, term.coefficient);
    checked_mul(-1, it->coefficient);
    if (it->coefficient == 0) terms_.erase(it);
  } else {
    check_limit(term.atoms.size(), limits::dim_factors, "factors in one of its terms");
    terms_.insert(it, std::move(term));
    check_limit(terms_.size(), limits::dim_terms, "terms");
  }
}

std::string Dim::to_string() const {
  if (is_const()) return std::to_string(constant_);
  std::string text;
  for (const Term& term : terms_) {
    const int64_t c = term.coefficient;
    if (c < 0)
      text += "-";
    else if (!text.empty())
      text += "+";
    const std::string magnitude = std::to_string(c < 0 ? -static_cast<uint64_t>(c) : static_cast<uint64_t>(c));
    text += term_key(term);
    if (magnitude != "1") text += "*" + magnitude;
  }
  if (constant_ > 0) text += "+" + std::to_string(constant_);
  if (constant_ < 0) text += std::to_string(constant_);
  return text;
}

bool Dim::operator==(const Dim& other) const {
  if (constant_ != other.constant_ || terms_.size() != other.terms_.size()) return false;
  for (size_t i = 0; i < terms_.size(); ++i) {
    if (terms_[i].coefficient != other.terms_[i].coefficient) return false;
    if (term_key(terms_[i]) != term_key(other.terms_[i])) return false;
  }
  return true;
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim out = a;
  out.constant_ = checked_add(a.constant_, b.constant_);
  for (const Dim::Term& term : b.terms_) out.add_term(term);
  return out;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  check_limit(a.terms_.size() * b.terms_.size(), limits::dim_products, "products of terms");
  Dim out(checked_mul(a.constant_, b.constant_));
  for (const Dim::Term& ta : a.terms_) out.add_term({checked_mul(ta.coefficient, b.constant_), ta.atoms});
  for (const Dim::Term& tb : b.terms_) out.add_term({checked_mul(tb.coefficient, a.constant_), tb.atoms});
  for (const Dim::Term& ta : a.terms_) {
    for (const Dim::Term& tb : b.terms_) {
      Dim::Term term{checked_mul(ta.coefficient, tb.coefficient), ta.atoms};
      term.atoms.insert(term.atoms.end(), tb.atoms.begin(), tb.atoms.end());
      std::sort(term.atoms.begin(), term.atoms.end(), [](const auto& x, const auto& y) { return x->key < y->key; });
      out.add_term(std::move(term));
    }
  }
  return out;
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (b.is_const()) {
    const int64_t divisor = b.value();
    check_internal(divisor > 0, "floordiv by a constant that is not positive");
    if (divisor == 1) return a;
    // a = divisor * quotient + rest with all coefficients of rest in [0, divisor).
    Dim quotient(floor_div(a.constant_, divisor));
    Dim rest(checked_sub(a.constant_, checked_mul(quotient.constant_, divisor)));
    for (const Dim::Term& term : a.terms_) {
      const int64_t q = floor_div(term.coefficient, divisor);
      quotient.add_term({q, term.atoms});
      rest.add_term({checked_sub(term.coefficient, checked_mul(q, divisor)), term.atoms});
    }
    if (rest.is_const()) return quotient;
    if (rest.terms_.size() == 1 && rest.terms_[0].coefficient == 1 && rest.terms_[0].atoms.size() == 1 &&
        rest.terms_[0].atoms[0]->is_constant_division()) {  // (x//c + k)//d = (x + k*c)//(c*d)
      const Dim::Atom& inner = *rest.terms_[0].atoms[0];
      return quotient + floordiv(inner.a + Dim(rest.constant_) * inner.b, inner.b * b);
    }
    return quotient +
           Dim::from_atom(Dim::Atom::operation(Dim::Atom::Kind::FLOORDIV, rest, b, wrapped(rest) + "//" + wrapped(b)));
  }
  if (std::optional<Dim> exact = Dim::exact_div(a, b)) return *exact;
  return Dim::from_atom(Dim::Atom::operation(Dim::Atom::Kind::FLOORDIV, a, b, wrapped(a) + "//" + wrapped(b)));
}

Dim ceildiv(const Dim& a, const Dim& b) { return Dim(0) - floordiv(Dim(0) - a, b); }

Dim min(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (auto low = (a - b).lower_bound(); low && *low >= 0) return b;
  if (auto low = (b - a).lower_bound(); low && *low >= 0) return a;
  const bool swap = b.to_string() < a.to_string();
  const Dim& x = swap ? b : a;
  const Dim& y = swap ? a : b;
  return Dim::from_atom(
      Dim::Atom::operation(Dim::Atom::Kind::MIN, x, y, "min(" + x.to_string() + "," + y.to_string() + ")"));
}

Dim max(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (auto low = (a - b).lower_bound(); low && *low >= 0) return a;
  if (auto low = (b - a).lower_bound(); low && *low >= 0) return b;
  const bool swap = b.to_string() < a.to_string();
  const Dim& x = swap ? b : a;
  const Dim& y = swap ? a : b;
  return Dim::from_atom(
      Dim::Atom::operation(Dim::Atom::Kind::MAX, x, y, "max(" + x.to_string() + "," + y.to_string() + ")"));
}

std::optional<int64_t> Dim::lower_bound() const {
  int64_t low = constant_;
  for (const Term& term : terms_) {
    if (term.coefficient < 0) return std::nullopt;
    int64_t product = 1;
    for (const auto& atom : term.atoms) {
      std::optional<int64_t> bound = 0;
      if (atom->kind == Atom::Kind::FLOORDIV) {
        const auto numerator = atom->a.lower_bound();
        bound = numerator && *numerator >= 0
                    ? std::optional<int64_t>(atom->b.is_const() ? *numerator / atom->b.value() : 0)
                    : std::nullopt;
      } else if (atom->kind != Atom::Kind::SYMBOL) {
        const auto x = atom->a.lower_bound();
        const auto y = atom->b.lower_bound();
        const bool is_max = atom->kind == Atom::Kind::MAX;
        if (x && y)
          bound = is_max ? std::max(*x, *y) : std::min(*x, *y);
        else
          bound = is_max ? (x ? x : y) : std::nullopt;
      }
      if (!bound || *bound < 0) return std::nullopt;
      product = checked_mul(product, *bound);
    }
    low = checked_add(low, checked_mul(term.coefficient, product));
  }
  return low;
}

std::optional<Dim> Dim::exact_div(const Dim& a, const Dim& b) {
  if (a == b && !(b == 0)) return Dim(1);
  if (b.is_const()) {
    const int64_t divisor = b.value();
    if (divisor == -1) return Dim(0) - a;  // INT64_MIN has no quotient by -1, and the processor traps
    if (divisor == 0 || a.constant_ % divisor != 0) return std::nullopt;
    Dim out(a.constant_ / divisor);
    for (const Term& term : a.terms_) {
      if (term.coefficient % divisor != 0) return std::nullopt;
      out.add_term({term.coefficient / divisor, term.atoms});
    }
    return out;
  }
  if (b.terms_.size() != 1 || b.constant_ != 0 || a.constant_ != 0) return std::nullopt;
  const Term& by = b.terms_[0];
  if (by.coefficient == -1) return exact_div(Dim(0) - a, Dim(0) - b);
  Dim out;
  for (const Term& term : a.terms_) {
    if (term.coefficient % by.coefficient != 0) return std::nullopt;
    std::vector<std::shared_ptr<const Atom>> atoms = term.atoms;
    for (const auto& atom : by.atoms) {
      auto it = std::find_if(atoms.begin(), atoms.end(), [&](const auto& x) { return x->key == atom->key; });
      if (it == atoms.end()) return std::nullopt;
      atoms.erase(it);
    }
    const int64_t c = term.coefficient / by.coefficient;
    if (atoms.empty())
      out.constant_ = checked_add(out.constant_, c);
    else
      out.add_term({c, std::move(atoms)});
  }
  return out;
}

std::optional<int64_t> Dim::evaluate(const Lookup& lookup) const {
  const Dim out = substitute([&](const std::string& name) -> std::optional<Dim> {
    if (auto value = lookup(name)) return Dim(*value);
    return std::nullopt;
  });
  return out.as_const();
}

Dim Dim::substitute(const std::function<std::optional<Dim>(const std::string&)>& lookup) const {
  Dim out(constant_);
  for (const Term& term : terms_) {
    Dim product(term.coefficient);
    for (const auto& atom : term.atoms) {
      if (atom->kind == Atom::Kind::SYMBOL) {
        const std::optional<Dim> value = lookup(atom->key);
        product = product * (value ? *value : from_atom(atom));
        continue;
      }
      const Dim a = atom->a.substitute(lookup);
      const Dim b = atom->b.substitute(lookup);
      if (atom->kind == Atom::Kind::FLOORDIV) product = product * (b == 0 ? Dim(0) : floordiv(a, b));
      if (atom->kind == Atom::Kind::MIN) product = product * min(a, b);
      if (atom->kind == Atom::Kind::MAX) product = product * max(a, b);
    }
    out = out + product;
  }
  return out;
}

void Dim::collect_symbols(std::vector<std::string>& out) const {
  for (const Term& term : terms_) {
    for (const auto& atom : term.atoms) {
      if (atom->kind == Atom::Kind::SYMBOL) {
        if (std::find(out.begin(), out.end(), atom->key) == out.end()) out.push_back(atom->key);
      } else {
        atom->a.collect_symbols(out);
        atom->b.collect_symbols(out);
      }
    }
  }
}

std::optional<Dims> Shape::as_const() const {
  if (!ranked_ || rank() > kMaxRank) return std::nullopt;
  Dims out;
  for (const Dim& d : dims_) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

Dim Shape::count() const {
  Dim n(1);
  for (const Dim& d : dims_) n = n * d;
  return n;
}

std::string Shape::to_string() const {
  if (!ranked_) return "[*]";
  std::string text = "[";
  for (int i = 0; i < rank(); ++i) text += (i ? "," : "") + (*this)[i].to_string();
  return text + "]";
}

bool TensorType::operator==(const TensorType& other) const {
  if (dtype != other.dtype || shape != other.shape) return false;
  if (element == nullptr || other.element == nullptr) return element == other.element;
  return *element == *other.element;
}

std::string TensorType::to_string() const {
  std::string text = std::string(dtype_name(dtype)) + shape.to_string();
  if (element != nullptr) text += "(" + element->to_string() + ")";
  return text;
}

}  // namespace deepjit
