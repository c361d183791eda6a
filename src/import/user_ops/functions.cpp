#include "import/user_ops/functions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace deepjit {

namespace {

using Kind = UserFunction::Kind;
using Fold = double (*)(const double*);

constexpr size_t kAny = 64;

double lesser(const double* v) { return std::isnan(v[0]) ? v[0] : std::isnan(v[1]) || v[1] < v[0] ? v[1] : v[0]; }
double greater(const double* v) { return std::isnan(v[0]) ? v[0] : std::isnan(v[1]) || v[0] < v[1] ? v[1] : v[0]; }

double clip(const double* v) {
  const double low[] = {v[0], v[1]};
  const double high[] = {greater(low), v[2]};
  return lesser(high);
}

// Written by operators, not by name.
const std::map<std::string, UserFunction>& operators() {
  static const std::map<std::string, UserFunction> table = [] {
    std::map<std::string, UserFunction> t;
    const auto add = [&](const char* name, const char* op, size_t count, Fold fold) {
      t[name] = {name, Kind::MAP, op, count, count, fold};
    };
    add("+", "Add", 2, [](const double* v) { return v[0] + v[1]; });
    add("-", "Sub", 2, [](const double* v) { return v[0] - v[1]; });
    add("*", "Mul", 2, [](const double* v) { return v[0] * v[1]; });
    add("/", "Div", 2, [](const double* v) { return v[0] / v[1]; });
    add("**", "Pow", 2, [](const double* v) { return std::pow(v[0], v[1]); });
    add("==", "Equal", 2, [](const double* v) -> double { return v[0] == v[1]; });
    add("<", "Less", 2, [](const double* v) -> double { return v[0] < v[1]; });
    add("<=", "LessOrEqual", 2, [](const double* v) -> double { return v[0] <= v[1]; });
    add(">", "Greater", 2, [](const double* v) -> double { return v[0] > v[1]; });
    add(">=", "GreaterOrEqual", 2, [](const double* v) -> double { return v[0] >= v[1]; });
    add("and", "And", 2, [](const double* v) -> double { return v[0] != 0 && v[1] != 0; });
    add("or", "Or", 2, [](const double* v) -> double { return v[0] != 0 || v[1] != 0; });
    add("not", "Not", 1, [](const double* v) -> double { return v[0] == 0; });
    return t;
  }();
  return table;
}

void add_maps(std::map<std::string, UserFunction>& t) {
  const auto add = [&](const char* name, const char* op, Fold fold) { t[name] = {name, Kind::MAP, op, 1, 1, fold}; };
  add("abs", "Abs", [](const double* v) { return std::fabs(v[0]); });
  add("neg", "Neg", [](const double* v) { return -v[0]; });
  add("sqrt", "Sqrt", [](const double* v) { return std::sqrt(v[0]); });
  add("exp", "Exp", [](const double* v) { return std::exp(v[0]); });
  add("log", "Log", [](const double* v) { return std::log(v[0]); });
  add("erf", "Erf", [](const double* v) { return std::erf(v[0]); });
  add("tanh", "Tanh", [](const double* v) { return std::tanh(v[0]); });
  add("sigmoid", "Sigmoid", [](const double* v) { return 1 / (1 + std::exp(-v[0])); });
  add("floor", "Floor", [](const double* v) { return std::floor(v[0]); });
  add("ceil", "Ceil", [](const double* v) { return std::ceil(v[0]); });
  add("round", "Round", [](const double* v) { return std::nearbyint(v[0]); });
  add("reciprocal", "Reciprocal", [](const double* v) { return 1 / v[0]; });
  add("sign", "Sign", nullptr);
  add("is_nan", "IsNaN", [](const double* v) -> double { return std::isnan(v[0]); });
  add("is_inf", "IsInf", [](const double* v) -> double { return std::isinf(v[0]); });
  for (const auto& [name, op] : {std::pair{"relu", "Relu"},
                                 {"gelu", "Gelu"},
                                 {"softplus", "Softplus"},
                                 {"softsign", "Softsign"},
                                 {"mish", "Mish"}}) {
    add(name, op, nullptr);
  }
  t["min"] = {"min", Kind::MAP, "Min", 2, 2, lesser};
  t["max"] = {"max", Kind::MAP, "Max", 2, 2, greater};
  t["pow"] = {"pow", Kind::MAP, "Pow", 2, 2, operators().at("**").fold};
  t["clip"] = {"clip", Kind::MAP, "Clip", 3, 3, clip};
  t["where"] = {"where", Kind::WHERE, "Where", 3, 3};
  t["select"] = {"select", Kind::WHERE, "Where", 3, 3};
}

const std::map<std::string, UserFunction>& functions() {
  static const std::map<std::string, UserFunction> table = [] {
    std::map<std::string, UserFunction> t;
    add_maps(t);
    for (const auto& [name, op] : {std::pair{"sum", "ReduceSum"},
                                   {"mean", "ReduceMean"},
                                   {"prod", "ReduceProd"},
                                   {"max_of", "ReduceMax"},
                                   {"min_of", "ReduceMin"}}) {
      t[name] = {name, Kind::REDUCE, op, 1, kAny};
    }
    t["softmax"] = {"softmax", Kind::OVER_ROW, "Softmax", 1, 2};
    t["log_softmax"] = {"log_softmax", Kind::OVER_ROW, "LogSoftmax", 1, 2};
    t["squeeze"] = {"squeeze", Kind::SQUEEZE, "Squeeze", 1, kAny};
    for (DType type :
         {DType::FLOAT16, DType::BFLOAT16, DType::FLOAT32, DType::FLOAT64, DType::INT32, DType::INT64, DType::BOOL}) {
      const std::string name(dtype_name(type));
      t[name] = {name, Kind::CAST, "Cast", 1, 1, nullptr, type};
    }
    t["like"] = {"like", Kind::LIKE, "CastLike", 2, 2};
    return t;
  }();
  return table;
}

// Letters to insert, remove or replace, to make one of the other.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

std::string UserFunction::arity() const {
  if (least == most) return std::to_string(least);
  if (most == kAny) return "at least " + std::to_string(least);
  return std::to_string(least) + " or " + std::to_string(most);
}

std::string closest_function(const std::string& name) {
  if (name.size() > 32) return "";
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string best;
  size_t least = std::min<size_t>(3, 1 + name.size() / 3);
  for (const auto& [known, unused] : functions()) {
    const size_t away = edits(lower, known);
    if (away < least) {
      least = away;
      best = known;
    }
  }
  return best;
}

const UserFunction* find_function(const std::string& name) {
  for (const auto* table : {&functions(), &operators()}) {
    const auto found = table->find(name);
    if (found != table->end()) return &found->second;
  }
  return nullptr;
}

std::string function_list() {
  std::string list;
  for (const auto& [name, unused] : functions()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace deepjit
