#include <algorithm>

#include "kernels/onednn/problems.h"
#include "ops/linear/conv_shape.h"

namespace deepjit::onednn {

namespace {

// Logical dims and layout of the plain weights. ConvTranspose stores input channels before output channels.
memory::desc weights_desc(DType dtype, const Dims& w, int64_t group, bool transposed) {
  std::vector<int64_t> dims;
  std::vector<int> order;
  const int first = group > 1 ? 1 : 0;
  if (group > 1) {
    dims.push_back(group);
    order.push_back(0);
  }
  const int64_t rows = group > 1 ? w[0] / group : w[0];
  dims.push_back(transposed ? w[1] : rows);
  dims.push_back(transposed ? rows : w[1]);
  order.push_back(transposed ? first + 1 : first);
  order.push_back(transposed ? first : first + 1);
  for (int i = 2; i < w.rank(); ++i) {
    dims.push_back(w[i]);
    order.push_back(first + i);
  }
  return permuted_desc(dtype, dims, order);
}

}  // namespace

ConvProblem conv_problem(const StepShape& shape, int weights_input, bool transposed) {
  ConvProblem p;
  const TensorDesc &x = in(shape, 0), &w = in(shape, weights_input), &y = out(shape, 0);
  const Attributes& attrs = shape.step->attrs;
  if (x.dims.rank() < 3 || x.dims.rank() > 5) {
    p.reason = "oneDNN convolves 1 to 3 spatial dims";
    return p;
  }
  p.layout = {x.dims.rank(), is_channels_last(attrs)};
  const std::vector<int64_t> image = spatial_dims(p.layout.channels_last, to_vector(x.dims));
  const std::vector<int64_t> kernel = spatial_dims(false, to_vector(w.dims));
  const ConvGeometry g =
      transposed ? conv_transpose_geometry(attrs, image, kernel) : conv_geometry(attrs, image, kernel);
  p.group = g.group;
  p.src = p.layout.desc(x.dtype, x.dims);
  p.dst = p.layout.desc(y.dtype, y.dims);
  p.weights = weights_desc(w.dtype, w.dims, g.group, transposed);
  for (size_t i = 0; i < kernel.size(); ++i) {
    p.strides.push_back(g.strides[i]);
    p.dilations.push_back(g.dilations[i] - 1);
    // oneDNN derives the size from the pads; output padding is a smaller pad at the end.
    const int64_t image_side = transposed ? g.out[i] : g.in[i], window_side = transposed ? g.in[i] : g.out[i];
    p.pads_begin.push_back(g.pads_begin[i]);
    p.pads_end.push_back((window_side - 1) * g.strides[i] + g.extent(i) - image_side - g.pads_begin[i]);
  }
  return p;
}

memory::desc free_layout(const memory::desc& desc) {
  return memory::desc(desc.get_dims(), desc.get_data_type(), memory::format_tag::any);
}

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
