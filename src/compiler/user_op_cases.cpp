#include "compiler/user_op_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/visit.h"

namespace deepjit {

namespace {

constexpr int64_t kTails[] = {17, 1, 64, 5, 1027};  // of the innermost dim: vectors with and without a tail

bool is_number(const std::string& dim) { return !dim.empty() && dim.find_first_not_of("0123456789") == dim.npos; }

// Names in the order in which they occur; the innermost one of the largest input is the last.
std::vector<std::string> names_of(const UserOpDims& layout) {
  std::vector<std::string> names;
  size_t rank = 0;
  std::string innermost;
  for (const std::vector<std::string>& dims : layout) {
    for (const std::string& dim : dims) {
      if (!is_number(dim) && std::count(names.begin(), names.end(), dim) == 0) names.push_back(dim);
    }
    const auto last = std::find_if_not(dims.rbegin(), dims.rend(), is_number);
    if (dims.size() <= rank || last == dims.rend()) continue;
    rank = dims.size();
    innermost = *last;
  }
  const auto at = std::find(names.begin(), names.end(), innermost);
  if (at != names.end()) std::rotate(at, at + 1, names.end());
  return names;
}

struct FloatLimits {
  double largest = 0;
  double tiny = 0;  // the smallest above zero
};

FloatLimits limits_of(DType dtype) {
  switch (dtype) {
    case DType::FLOAT16:
      return {65504, std::ldexp(1.0, -24)};
    case DType::BFLOAT16:
      return {std::ldexp(255.0, 120), std::ldexp(1.0, -133)};
    case DType::FLOAT64:
      return {std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()};
    default:
      return {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()};
  }
}

class Floats {
 public:
  Floats(DType dtype, const Dims& dims, OpValues kind, bool rows, std::mt19937_64& random)
      : kind_(kind), random_(random) {
    const FloatLimits limits = limits_of(dtype);
    const double tiny = limits.tiny * 100;
    special_ = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 3.0, -3.0, tiny, -tiny};
    odd_ = {NAN, INFINITY, -INFINITY};
    const double large = std::sqrt(limits.largest / (rows ? 4096 : 1));  // squares of a row have a sum
    if (kind == OpValues::EXTREME) odd_ = {large, -large};
    if (kind == OpValues::EXTREME && !rows && dtype_size(dtype) > 2) {
      odd_.insert(odd_.end(), {limits.largest, -limits.largest});
    }
    if (rows) often_ = 0.3 / static_cast<double>(std::max<int64_t>(1, dims.empty() ? 1 : dims.back()));
  }

  double next() {
    double value = normal_(random_);
    if (kind_ == OpValues::PLAIN) return value;
    if (chance() < 0.3) value = pick(special_);
    if (chance() < 0.2) value = std::nearbyint(value);
    return chance() < often_ ? pick(odd_) : value;
  }

 private:
  double chance() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double pick(const std::vector<double>& from) { return from[random_() % from.size()]; }

  OpValues kind_;
  std::mt19937_64& random_;
  std::normal_distribution<double> normal_;
  std::vector<double> special_, odd_;
  double often_ = 0.3;
};

}  // namespace

std::vector<UserOpDims> user_op_layouts(const UserOp& op) {
  if (!op.shape.inputs().empty()) {
    const bool leading =
        std::any_of(op.shape.inputs().begin(), op.shape.inputs().end(), [](const auto& p) { return p.leading; });
    std::vector<UserOpDims> layouts = {plain_user_op_dims(op, 0)};
    if (leading) layouts.push_back(plain_user_op_dims(op, 0, 0));
    return layouts;
  }
  const UserOpDims plain = plain_user_op_dims(op, usual_rank(op));
  const std::vector<std::string>& full = plain.front();
  std::vector<UserOpDims> layouts = {plain};
  if (plain.size() == 1) return layouts;
  const std::vector<std::vector<std::string>> parts = {{full.back()}, {"1"}};
  for (const std::vector<std::string>& part : parts) {
    UserOpDims layout(plain.size(), part);
    layout[op.shape.same_as().value_or(0)] = full;
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

std::vector<std::vector<Dims>> user_op_sizes(const UserOpDims& layout) {
  const std::vector<std::string> names = names_of(layout);
  std::vector<std::vector<Dims>> all;
  for (size_t run = 0; run < std::size(kTails); ++run) {
    std::map<std::string, int64_t> sizes;
    for (size_t i = 0; i < names.size(); ++i) {
      const bool few = i + 5 >= names.size();  // dims further out would only make the tensors large
      sizes[names[i]] = few ? std::array{2, 3, 1}[(run + i) % 3] : 1;
    }
    if (!names.empty()) sizes[names.back()] = kTails[run];
    std::vector<Dims>& shapes = all.emplace_back();
    for (const std::vector<std::string>& dims : layout) {
      Dims& shape = shapes.emplace_back();
      for (const std::string& dim : dims) shape.push_back(is_number(dim) ? std::stoll(dim) : sizes.at(dim));
    }
  }
  return all;
}

Tensor user_op_values(DType dtype, const Dims& dims, OpValues kind, bool rows, std::mt19937_64& random) {
  Tensor tensor(dtype, dims);
  const int64_t count = tensor.count();
  if (dtype == DType::BOOL) {
    for (int64_t i = 0; i < count; ++i) tensor.as<bool>()[i] = random() % 2 == 0;
    return tensor;
  }
  visit_numeric(dtype, "values of a test", [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      const int64_t lowest = std::is_unsigned_v<T> ? 0 : -9;
      const bool narrow =
          dtype == DType::INT4 || dtype == DType::UINT4 || dtype == DType::INT2 || dtype == DType::UINT2;
      const int64_t range = narrow ? 2 : 19;
      for (int64_t i = 0; i < count; ++i) {
        tensor.as<T>()[i] = static_cast<T>((narrow ? 0 : lowest) + static_cast<int64_t>(random() % range));
      }
    } else {
      Floats floats(dtype, dims, kind, rows, random);
      for (int64_t i = 0; i < count; ++i) tensor.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(floats.next()));
    }
  });
  return tensor;
}

}  // namespace deepjit
