// What convolutions and matrix products become as cuDNN's operation graphs, without cuDNN: a graph is carried out here
// by its own numbers and compared with the op's reference. tests/gpu has the library itself.
#include "kernels/cudnn/graph.h"
#include "provider_test_util.h"

namespace deepjit {
namespace {

using cudnn::Graph;
using cudnn::Mode;
using cudnn::TensorSpec;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

// Calls body(coordinates, place) for every element of dims, the last dim first.
template <typename F>
void for_each(const Ints& dims, F&& body) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  Ints at(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    body(at, static_cast<size_t>(i));
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
}

int64_t place_of(const Ints& at, const Ints& strides) {
  int64_t place = 0;
  for (size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
  return place;
}

// Carries a graph out in double precision: every tensor's elements in the order of its dims.
class Interpreter {
 public:
  Interpreter(const Graph& graph, const std::vector<Tensor>& inputs) : graph_(graph), values_(graph.tensors.size()) {
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      const TensorSpec& spec = graph.tensors[i];
      const float* data =
          spec.kind == TensorSpec::Kind::INPUT ? inputs[static_cast<size_t>(spec.input)].as<float>() : &spec.value;
      const bool given = spec.kind == TensorSpec::Kind::INPUT || spec.kind == TensorSpec::Kind::SCALAR;
      for_each(spec.dims,
               [&](const Ints& at, size_t) { values_[i].push_back(given ? data[place_of(at, spec.strides)] : 0); });
    }
  }

  void run(Tensor& y) {
    graph_.kind == Graph::Kind::PRODUCT ? multiply() : convolve();
    for (const cudnn::PointwiseSpec& op : graph_.pointwise) apply(op);
    size_t outputs = 0;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const TensorSpec& spec = graph_.tensors[i];
      if (spec.kind != TensorSpec::Kind::OUTPUT) continue;
      ++outputs;
      for_each(spec.dims, [&](const Ints& at, size_t k) {
        y.as<float>()[place_of(at, spec.strides)] = static_cast<float>(values_[i][k]);
      });
    }
    EXPECT_EQ(outputs, 1u);
  }

 private:
  const TensorSpec& spec(int tensor) const { return graph_.tensors[static_cast<size_t>(tensor)]; }

  bool is_transposed() const { return graph_.kind == Graph::Kind::TRANSPOSED; }

  // Place of the element at these coordinates, where dims of 1 go along.
  static size_t broadcast_place(const Ints& at, const Ints& dims) {
    size_t place = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      place = place * static_cast<size_t>(dims[d]) + static_cast<size_t>(dims[d] == 1 ? 0 : at[d]);
    }
    return place;
  }

  void multiply() {
    const Ints &a = spec(graph_.from).dims, &b = spec(graph_.w).dims;
    ASSERT_EQ(a.back(), b[b.size() - 2]);
    for_each(spec(graph_.to).dims, [&](const Ints& at, size_t to) {
      Ints left = at, right = at;
      for (int64_t k = 0; k < a.back(); ++k) {
        left.back() = right[right.size() - 2] = k;
        values_[static_cast<size_t>(graph_.to)][to] +=
            values_[static_cast<size_t>(graph_.from)][broadcast_place(left, a)] *
            values_[static_cast<size_t>(graph_.w)][broadcast_place(right, b)];
      }
    });
  }

  void convolve() {
    const int image = is_transposed() ? graph_.to : graph_.from, windows = is_transposed() ? graph_.from : graph_.to;
    const Ints &in = spec(image).dims, &out = spec(windows).dims, &w = spec(graph_.w).dims;
    const int64_t per_group = w[1], groups = in[1] / per_group, rows = w[0] / groups;
    for (size_t d = 0; d + 2 < in.size(); ++d) {  // as the library counts windows
      const int64_t extent = (w[d + 2] - 1) * graph_.dilations[d] + 1;
      const int64_t room = in[d + 2] + graph_.pads_begin[d] + graph_.pads_end[d] - extent;
      EXPECT_EQ(room / graph_.strides[d] + 1, out[d + 2]);
    }
    for_each(out, [&](const Ints& at, size_t to) {
      for_each(w, [&](const Ints& tap, size_t weight) {
        if (tap[0] != at[1]) return;
        Ints from{at[0], at[1] / rows * per_group + tap[1]};
        int64_t place = from[0] * in[1] + from[1];
        for (size_t d = 0; d + 2 < in.size(); ++d) {
          const int64_t x = at[d + 2] * graph_.strides[d] - graph_.pads_begin[d] + tap[d + 2] * graph_.dilations[d];
          if (x < 0 || x >= in[d + 2]) return;
          place = place * in[d + 2] + x;
        }
        const double factor = values_[static_cast<size_t>(graph_.w)][weight];
        double& one = values_[static_cast<size_t>(image)][static_cast<size_t>(place)];
        double& other = values_[static_cast<size_t>(windows)][to];
        is_transposed() ? one += other* factor : other += one * factor;
      });
    });
  }

  static double apply_one(const cudnn::PointwiseSpec& op, double x, double b) {
    switch (op.mode) {
      case Mode::ADD:
        return x + b;
      case Mode::MUL:
        return x * b;
      case Mode::SUB:
        return x - b;
      case Mode::DIV:
        return x / b;
      case Mode::SQRT:
        return std::sqrt(x);
      case Mode::ABS:
        return std::abs(x);
      case Mode::EXP:
        return std::exp(x);
      case Mode::RELU:
        return x < op.lower ? op.lower + op.slope * (x - op.lower) : std::min<double>(x, op.upper);
      case Mode::TANH:
        return std::tanh(x);
      case Mode::SIGMOID:
        return 1 / (1 + std::exp(-x));
      case Mode::ELU:
        return x < 0 ? op.factor * std::expm1(x) : x;
      case Mode::GELU:
        return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      case Mode::SOFTPLUS:
        return std::log1p(std::exp(x));
      case Mode::SWISH:
        return x / (1 + std::exp(-op.factor * x));
      case Mode::GELU_TANH:
        return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    }
    return NAN;
  }

  void apply(const cudnn::PointwiseSpec& op) {
    for_each(spec(op.y).dims, [&](Ints at, size_t i) {
      double b = 0;
      if (op.b >= 0) {
        const Ints& dims = spec(op.b).dims;
        for (size_t d = 0; d < dims.size(); ++d) EXPECT_TRUE(dims[d] == 1 || dims[d] == spec(op.y).dims[d]);
        b = values_[static_cast<size_t>(op.b)][broadcast_place(at, dims)];
      }
      values_[static_cast<size_t>(op.y)][i] = apply_one(op, values_[static_cast<size_t>(op.x)][i], b);
    });
  }

  const Graph& graph_;
  std::vector<std::vector<double>> values_;
};

Graph check(const StepCase& c) {
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs);
  const BoundCase bound(c, expected);
  const bool packs = cudnn::packs_weights(bound.shape);
  Graph graph = cudnn::graph_of(bound.shape, packs);
  EXPECT_EQ(graph.reason, "");
  if (!graph.reason.empty()) return graph;
  std::vector<Tensor> inputs = c.inputs;
  if (packs) {
    inputs[1] = cudnn::pack_weights(inputs[1]);
    EXPECT_TRUE(cudnn::unpack_weights(inputs[1], c.inputs[1].view().desc()).same_as(c.inputs[1]));
  }
  Tensor y(DType::FLOAT32, expected[0].dims());
  std::fill_n(y.as<float>(), y.count(), NAN);  // every element must be written
  Interpreter(graph, inputs).run(y);
  EXPECT_LE(relative_error(y, expected[0]), 1e-5) << c.op << " " << to_string(graph);
  return graph;
}

std::string reason(const StepCase& c) {
  const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
  return cudnn::graph_of(bound.shape, false).reason;
}

TEST(CudnnGraph, ChannelsFirst) {
  check({"Conv", {{"pads", Ints{1, 1, 1, 1}}}, {random_f32({2, 3, 7, 5}, 1), random_f32({4, 3, 3, 3}, 2)}, {1}});
  check({"Conv",
         {{"strides", Ints{2, 1}}, {"pads", Ints{0, 1, 2, 1}}},
         {random_f32({1, 3, 9, 6}, 1), random_f32({5, 3, 3, 3}, 2), random_f32({5}, 3)},
         {1, 2}});
  check({"Conv",
         {{"group", int64_t{2}}, {"dilations", Ints{2, 1}}},
         {random_f32({2, 4, 8, 6}, 1), random_f32({6, 2, 3, 2}, 2)}});
  check({"Conv",
         {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}},
         {random_f32({1, 2, 7, 8}, 1), random_f32({3, 2, 3, 3}, 2)}});
}

TEST(CudnnGraph, ChannelsLast) {
  for (const std::set<int>& constants : {std::set<int>{1, 2}, {}}) {
    const Graph graph = check({"deepjit.Conv",
                               {{"layout", std::string("NHWC")}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}},
                               {random_f32({2, 7, 5, 3}, 1), random_f32({4, 3, 3, 3}, 2), random_f32({4}, 3)},
                               constants});
    const Ints& strides = graph.tensors[static_cast<size_t>(graph.w)].strides;
    EXPECT_EQ(strides, constants.empty() ? (Ints{27, 9, 3, 1}) : (Ints{27, 1, 9, 3}));
    EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.from)].strides, (Ints{105, 1, 15, 3}));
  }
  check({"deepjit.Conv",
         {{"layout", std::string("NHWC")}, {"group", int64_t{6}}, {"pads", Ints{1, 1, 1, 1}}},
         {random_f32({1, 5, 7, 6}, 1), random_f32({6, 1, 3, 3}, 2), random_f32({6}, 3)},
         {1, 2}});
}

TEST(CudnnGraph, OneAndThreeSpatialDims) {
  check({"Conv", {{"pads", Ints{2, 1}}}, {random_f32({2, 3, 11}, 1), random_f32({4, 3, 5}, 2)}, {1}});
  check({"deepjit.Conv",
         {{"layout", std::string("NHWC")}, {"strides", Ints{2}}},
         {random_f32({2, 11, 3}, 1), random_f32({4, 3, 5}, 2), random_f32({4}, 3)},
         {1}});
  check({"Conv", {}, {random_f32({1, 2, 4, 5, 6}, 1), random_f32({3, 2, 2, 3, 2}, 2)}, {1}});
}

TEST(CudnnGraph, Transposed) {
  for (const char* layout : {"NCHW", "NHWC"}) {
    const bool last = std::string(layout) == "NHWC";
    const Dims x = last ? Dims{2, 5, 4, 6} : Dims{2, 6, 5, 4};
    const auto step = [&](AttrList more, int64_t out_per_group) {
      AttrList attrs = {{"layout", std::string(layout)}};
      attrs.insert(attrs.end(), more.begin(), more.end());
      return StepCase{"deepjit.ConvTranspose", attrs, {random_f32(x, 1), random_f32({6, out_per_group, 3, 3}, 2)}, {1}};
    };
    EXPECT_EQ(check(step({}, 4)).kind, Graph::Kind::TRANSPOSED);
    check(step({{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 1}}}, 4));
    check(step({{"strides", Ints{3, 2}}, {"pads", Ints{0, 1, 2, 0}}, {"dilations", Ints{1, 2}}}, 4));
    check(step({{"strides", Ints{2, 2}}, {"group", int64_t{2}}, {"output_padding", Ints{1, 0}}}, 3));
  }
  check({"ConvTranspose",
         {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}},
         {random_f32({1, 3, 4, 4}, 1), random_f32({3, 2, 3, 3}, 2), random_f32({2}, 3)}});
  // Rows that no window reaches.
  EXPECT_NE(reason({"ConvTranspose",
                    {{"strides", Ints{2, 2}}, {"output_shape", Ints{12, 12}}},
                    {random_f32({1, 3, 4, 4}, 1), random_f32({3, 2, 2, 2}, 2)}}),
            "");
}

TEST(CudnnGraph, Epilogues) {
  for (const char* layout : {"NCHW", "NHWC"}) {
    const bool last = std::string(layout) == "NHWC";
    const Dims x = last ? Dims{2, 5, 6, 3} : Dims{2, 3, 5, 6}, y = last ? Dims{2, 5, 6, 4} : Dims{2, 4, 5, 6};
    const Dims channel = last ? Dims{4} : Dims{4, 1, 1}, batch = last ? Dims{2, 1, 1, 4} : Dims{2, 4, 1, 1};
    const std::vector<Strings> lists = {{"Relu"},
                                        {"Clip(-0.25,0.5)"},
                                        {"LeakyRelu(0.1)"},
                                        {"Sigmoid"},
                                        {"Tanh", "Abs", "Sqrt"},
                                        {"Gelu"},
                                        {"GeluTanh"},
                                        {"Elu(0.5)"},
                                        {"HardSwish"},
                                        {"HardSigmoid(0.2,0.5)", "Linear(2,-1)"},
                                        {"Swish(1.5)"},
                                        {"Softplus", "Exp"},
                                        {"Mul($3)", "Add($4)", "Relu"},
                                        {"Add($5)", "Relu"},
                                        {"Add($5)", "Add($3)", "Add($5)"},
                                        {"Sub($5)", "Div($7)"},
                                        {"Mul($6)", "Swish(1)"}};
    for (const Strings& list : lists) {
      for (bool biased : {true, false}) {
        check({"deepjit.Conv",
               {{"layout", std::string(layout)}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", list}},
               {random_f32(x, 1), random_f32({4, 3, 3, 3}, 2), biased ? random_f32({4}, 3) : Tensor(),
                random_f32(channel, 4), random_f32(channel, 5), random_f32(y, 6), random_f32(batch, 7),
                random_f32({1}, 8, 0.5f, 1)},
               {1, 2, 3, 4}});
      }
    }
  }
}

// What cuDNN has ready adds an image first, then a vector.
TEST(CudnnGraph, ResidualsComeBeforeTheBias) {
  const Graph graph = check(
      {"deepjit.Conv",
       {{"epilogue", Strings{"Add($3)", "Relu"}}},
       {random_f32({1, 3, 5, 5}, 1), random_f32({4, 3, 1, 1}, 2), random_f32({4}, 3), random_f32({1, 4, 5, 5}, 4)}});
  ASSERT_EQ(graph.pointwise.size(), 3u);
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.pointwise[0].b)].input, 3);
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.pointwise[1].b)].input, 2);
}

TEST(CudnnGraph, Products) {
  for (int64_t ta : {0, 1}) {
    for (int64_t tb : {0, 1}) {
      check({"deepjit.MatMul",
             {{"trans_a", ta}, {"trans_b", tb}, {"epilogue", Strings{"Gelu"}}},
             {random_f32(ta != 0 ? Dims{5, 7} : Dims{7, 5}, 1), random_f32(tb != 0 ? Dims{3, 5} : Dims{5, 3}, 2),
              random_f32({3}, 3)}});
    }
  }
  check({"MatMul", {}, {random_f32({5}, 1), random_f32({5, 3}, 2)}});
  check({"MatMul", {}, {random_f32({7, 5}, 1), random_f32({5}, 2)}});
  check({"MatMul", {}, {random_f32({5}, 1), random_f32({5}, 2)}});
  check({"deepjit.MatMul", {}, {random_f32({4, 7, 5}, 1), random_f32({5}, 2), random_f32({7}, 3)}});
  check({"deepjit.MatMul", {}, {random_f32({5}, 1), random_f32({4, 5, 3}, 2), random_f32({4, 3}, 3)}});
  check({"MatMul", {}, {random_f32({2, 3, 7, 5}, 1), random_f32({3, 5, 4}, 2)}});
  check({"MatMul", {}, {random_f32({2, 1, 7, 5}, 1), random_f32({3, 5, 4}, 2)}});
  check({"deepjit.MatMul",
         {{"trans_b", int64_t{1}}, {"epilogue", Strings{"Linear(0.125,0)", "Add($3)"}}},
         {random_f32({2, 3, 7, 5}, 1), random_f32({2, 3, 6, 5}, 2), Tensor(), random_f32({2, 1, 7, 6}, 3)}});
  check({"Gemm",
         {{"alpha", 0.5f}, {"transB", int64_t{1}}},
         {random_f32({7, 5}, 1), random_f32({4, 5}, 2), random_f32({7, 1}, 3)}});
  check({"Gemm", {{"beta", 0.0f}}, {random_f32({7, 5}, 1), random_f32({5, 4}, 2), random_f32({4}, 3)}});
  EXPECT_NE(reason({"Gemm", {{"beta", 2.0f}}, {random_f32({7, 5}, 1), random_f32({5, 4}, 2), random_f32({4}, 3)}}), "");
}

TEST(CudnnGraph, RowsOfABatchAreRowsOfOneProduct) {
  const auto step = [](const Dims& addend) {
    return StepCase{"deepjit.MatMul",
                    {{"epilogue", Strings{"Add($3)", "Swish(1)"}}},
                    {random_f32({2, 3, 7, 5}, 1), random_f32({5, 4}, 2), random_f32({4}, 3), random_f32(addend, 4)}};
  };
  const Graph graph = check(step({2, 3, 7, 4}));
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.from)].dims,
            (Ints{1, 42, 5}));  // one batch dim, as cuDNN has kernels for
  check(step({4}));
  for (const Dims& shared : {Dims{7, 4}, {3, 7, 4}, {2, 1, 1, 4}}) {  // over parts of the batch: it stays a batch
    const Graph batch = check(step(shared));
    EXPECT_EQ(batch.tensors[static_cast<size_t>(batch.from)].dims, (Ints{2, 3, 7, 5}));
  }
}

TEST(CudnnGraph, Refusals) {
  EXPECT_NE(reason({"Relu", {}, {random_f32({2, 3}, 1)}}), "");
  EXPECT_NE(reason({"Conv", {}, {Tensor(DType::FLOAT64, {1, 2, 4, 4}), Tensor(DType::FLOAT64, {3, 2, 1, 1})}}), "");
  EXPECT_NE(reason({"Conv", {}, {Tensor(DType::FLOAT32, {0, 2, 4, 4}), random_f32({3, 2, 1, 1}, 1)}}), "");
}

TEST(CudnnGraph, TheKeyTellsGraphsApart) {
  const auto text = [](const StepCase& c) {
    const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
    return to_string(cudnn::graph_of(bound.shape, false));
  };
  const auto step = [](AttrList attrs) {
    return StepCase{"deepjit.Conv", std::move(attrs), {random_f32({1, 3, 5, 5}, 1), random_f32({4, 3, 3, 3}, 2)}};
  };
  std::set<std::string> keys;
  for (const AttrList& attrs : {AttrList{},
                                {{"pads", Ints{1, 1, 1, 1}}},
                                {{"pads", Ints{2, 2, 0, 0}}},
                                {{"strides", Ints{2, 1}}},
                                {{"epilogue", Strings{"Clip(0,6)"}}},
                                {{"epilogue", Strings{"Clip(0,5)"}}},
                                {{"epilogue", Strings{"Elu(1)"}}},
                                {{"epilogue", Strings{"Linear(2,0)"}}},
                                {{"epilogue", Strings{"Linear(3,0)"}}}}) {
    EXPECT_TRUE(keys.insert(text(step(attrs))).second);
  }
}

}  // namespace
}  // namespace deepjit
