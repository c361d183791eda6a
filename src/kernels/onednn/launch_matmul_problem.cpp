#include <algorithm>
#include <numeric>

#include "kernels/onednn/matmul_problem.h"

namespace deepjit::onednn {

void pad_rank(Dims& dims, int rank) {
  while (dims.rank() < rank) dims.insert(0, 1);
}

Product product_of(const Dims& a, const Dims& b, bool trans_a, bool trans_b) {
  Product p;
  p.a = a;
  p.b = b;
  p.row = a.rank() == 1;
  p.column = b.rank() == 1;
  if (p.row) p.a.insert(0, 1);
  if (p.column) p.b.push_back(1);
  p.trans_a = trans_a && !p.row;
  p.trans_b = trans_b && !p.column;
  const int rank = std::max(p.a.rank(), p.b.rank());
  pad_rank(p.a, rank);
  pad_rank(p.b, rank);
  if (p.trans_a) std::swap(p.a[rank - 1], p.a[rank - 2]);
  if (p.trans_b) std::swap(p.b[rank - 1], p.b[rank - 2]);
  for (int i = 0; i < rank - 2; ++i) p.y.push_back(std::max(p.a[i], p.b[i]));
  p.y.push_back(p.a[rank - 2]);
  p.y.push_back(p.b[rank - 1]);
  return p;
}

memory::desc matrix_desc(DType dtype, const Dims& dims, bool transposed) {
  std::vector<int> order;
  for (int i = 0; i < dims.rank(); ++i) order.push_back(i);
  if (transposed) std::swap(order[dims.size() - 1], order[dims.size() - 2]);
  return permuted_desc(dtype, dims, order);
}

std::optional<Dims> collapse(const Dims& dims, const Dims& y) {
  const int rank = y.rank();
  bool all = true, none = true;
  for (int i = 0; i < rank - 1; ++i) {
    all = all && dims[i] == y[i];
    none = none && dims[i] == 1;
  }
  if (!all && !none) return std::nullopt;
  int64_t rows = 1;
  for (int i = 0; i < rank - 1; ++i) rows *= dims[i];
  return Dims{rows, dims[rank - 1]};
}

}  // namespace deepjit::onednn
