#include "passes/layout/permutation.h"

#include <algorithm>

namespace deepjit {

bool is_identity(const Permutation& p) { return std::is_sorted(p.begin(), p.end()); }

Permutation inverse(const Permutation& p) {
  Permutation out(p.size());
  for (size_t i = 0; i < p.size(); ++i) out[static_cast<size_t>(p[i])] = static_cast<int64_t>(i);
  return out;
}

Permutation compose(const Permutation& first, const Permutation& second) {
  Permutation out;
  for (int64_t i : second) out.push_back(first[static_cast<size_t>(i)]);
  return out;
}

Permutation perm_of(const Node& transpose) {
  if (transpose.attrs.has("perm")) return transpose.attrs.get_ints("perm");
  Permutation out;
  for (int i = transpose.input(0)->type.shape.rank() - 1; i >= 0; --i) out.push_back(i);
  return out;
}

Shape permute(const Shape& shape, const Permutation& p) {
  std::vector<Dim> dims;
  for (int64_t i : p) dims.push_back(shape[static_cast<int>(i)]);
  return Shape(std::move(dims));
}

bool moves_nothing(const Shape& shape, const Permutation& p) {
  int64_t last = -1;
  for (int64_t i : p) {
    if (shape[static_cast<int>(i)] == 1) continue;
    if (i < last) return false;
    last = i;
  }
  return true;
}

namespace {

constexpr int64_t kGuess = 32;  // elements of a dim that nobody knows

}  // namespace

double transposed_bytes(const TensorType& type, const Permutation& p) {
  if (moves_nothing(type.shape, p)) return 0;
  double bytes = static_cast<double>(std::max<size_t>(dtype_size(type.dtype), 1));
  for (const Dim& d : type.shape.dims()) {
    const auto size = d.evaluate([](const std::string&) { return std::optional<int64_t>(kGuess); });
    bytes *= static_cast<double>(std::max<int64_t>(size.value_or(kGuess), 1));
  }
  return bytes;
}

}  // namespace deepjit
