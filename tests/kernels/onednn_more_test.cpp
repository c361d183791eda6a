// The oneDNN provider's pools, norms, reductions, copies, Resize and recurrent layers against the references.
#include "provider_test_util.h"

namespace deepjit {
namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

std::vector<std::string> check(const StepCase& c, double tolerance = 1e-4) {
  return check_provider(onednn_offerer(), onednn_launcher(), c, tolerance);
}
void check_offered(const StepCase& c, double tolerance = 1e-4) {
  EXPECT_FALSE(check(c, tolerance).empty()) << c.op << " has no oneDNN tactic";
}
std::string reason_for(const StepCase& c) {
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs, c.num_outputs);
  return onednn_offerer().offer(BoundCase(c, expected).shape).reason;
}

TEST(OnednnPool, Windows) {
  const Tensor x = random_f32({2, 19, 17, 13}, 1), last = random_f32({2, 17, 13, 19}, 1);
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const int64_t ceil : {0, 1}) {
      for (const int64_t count : {0, 1}) {
        AttrList attrs{
            {"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 1}}, {"ceil_mode", ceil}};
        if (std::string(op) == "AveragePool") attrs.emplace_back("count_include_pad", count);
        check({op, attrs, {x}}, 1e-6);
        attrs.emplace_back("layout", std::string("NHWC"));
        check({std::string("deepjit.") + op, attrs, {last}}, 1e-6);
      }
    }
    check_offered({op, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, {x}}, 1e-6);
    check_offered(
        {op, {{"kernel_shape", Ints{3}}, {"auto_pad", std::string("SAME_UPPER")}}, {random_f32({1, 16, 20}, 1)}}, 1e-6);
  }
  check({"MaxPool", {{"kernel_shape", Ints{3, 3}}, {"dilations", Ints{2, 2}}}, {x}}, 1e-6);
  check_offered({"GlobalAveragePool", {}, {x}}, 1e-5);
}

TEST(OnednnPool, CeilModeWithCountedPadsIsLeftAlone) {
  const StepCase c{"AveragePool",
                   {{"kernel_shape", Ints{7, 7}},
                    {"strides", Ints{3, 3}},
                    {"pads", Ints{3, 3, 3, 3}},
                    {"ceil_mode", int64_t{1}},
                    {"count_include_pad", int64_t{1}}},
                   {random_f32({1, 4, 15, 15}, 1)}};
  EXPECT_NE(reason_for(c), "");
}

TEST(OnednnPool, IndicesAreLeftAlone) {
  EXPECT_NE(reason_for({"MaxPool", {{"kernel_shape", Ints{2, 2}}}, {random_f32({1, 4, 6, 6}, 1)}, {}, 2}), "");
}

TEST(OnednnNorm, Softmax) {
  if (op_registry().find("Softmax") == nullptr) GTEST_SKIP() << "Softmax is not registered";
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    check_offered({op, {{"axis", int64_t{-1}}}, {random_f32({3, 17, 33}, 1, -5, 5)}}, 1e-5);
    for (const int64_t axis : {1, 0}) check({op, {{"axis", axis}}, {random_f32({3, 17, 33}, 1, -5, 5)}}, 1e-5);
  }
}

TEST(OnednnNorm, LayerNormalization) {
  if (op_registry().find("LayerNormalization") == nullptr) GTEST_SKIP() << "LayerNormalization is not registered";
  const Tensor x = random_f32({2, 5, 7, 48}, 1);
  check_offered({"LayerNormalization", {}, {x, random_f32({48}, 2), random_f32({48}, 3)}, {1, 2}}, 1e-5);
  check_offered({"LayerNormalization", {{"epsilon", 0.1f}}, {x, random_f32({48}, 2)}, {1}}, 1e-5);
  check_offered({"LayerNormalization", {{"axis", int64_t{2}}}, {x, random_f32({7, 48}, 2), random_f32({7, 48}, 3)}},
                1e-5);
  EXPECT_NE(reason_for({"LayerNormalization", {{"axis", int64_t{2}}}, {x, random_f32({48}, 2)}}), "");
}

TEST(OnednnReduce, Axes) {
  const Tensor x = random_f32({2, 19, 7, 33}, 1);
  const std::vector<Ints> lists = {{3}, {-1, 2}, {1}, {1, 2}, {0, 1, 2, 3}, {0, 2}, {0}};
  for (const char* op : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"}) {
    for (const Ints& axes : lists) {
      for (const int64_t keep : {0, 1}) {
        check({op, {{"keepdims", keep}}, {x, Tensor::vector_i64(axes)}, {1}}, 1e-5);
      }
    }
    check({op, {}, {x}}, 1e-5);
  }
  check_offered({"ReduceMean", {}, {x, Tensor::vector_i64(Ints{-1})}, {1}}, 1e-5);
  check_offered({"ReduceMean", {}, {random_f32({2, 7, 5, 64}, 1), Tensor::vector_i64(Ints{1, 2})}, {1}}, 1e-5);
  EXPECT_NE(reason_for({"ReduceMean", {}, {x, Tensor::vector_i64(Ints{-1})}}), "");
}

TEST(OnednnMove, Transpose) {
  for (const Ints& perm : std::vector<Ints>{{0, 2, 3, 1}, {0, 3, 1, 2}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 2, 3}}) {
    check_offered({"Transpose", {{"perm", perm}}, {random_f32({2, 17, 5, 33}, 1)}}, 0);
  }
  check_offered({"Transpose", {}, {random_f32({3, 5}, 1)}}, 0);
}

TEST(OnednnMove, Concat) {
  for (const int64_t axis : {0, 1, -1}) {
    Dims dims{2, 5, 7};
    dims[static_cast<int>((axis + 3) % 3)] = 3;
    check({"Concat", {{"axis", axis}}, {random_f32({2, 5, 7}, 1), random_f32(dims, 2), random_f32({2, 5, 7}, 3)}}, 0);
  }
}

TEST(OnednnResize, AgreesWhereOffered) {
  if (op_registry().find("Resize") == nullptr) GTEST_SKIP() << "Resize is not registered";
  const Tensor x = random_f32({1, 17, 9, 7}, 1);
  const auto resize = [&](const char* mode, const char* coordinates, const char* rounding, const Ints& sizes) {
    return check({"Resize",
                  {{"mode", std::string(mode)},
                   {"coordinate_transformation_mode", std::string(coordinates)},
                   {"nearest_mode", std::string(rounding)}},
                  {x, none(), none(), Tensor::vector_i64(sizes)},
                  {3}},
                 1e-5)
        .size();
  };
  EXPECT_GT(resize("nearest", "asymmetric", "floor", {1, 17, 18, 14}), 0u);
  EXPECT_GT(resize("nearest", "half_pixel", "round_prefer_floor", {1, 17, 27, 14}), 0u);
  EXPECT_GT(resize("linear", "half_pixel", "floor", {1, 17, 20, 10}), 0u);
  EXPECT_GT(resize("linear", "half_pixel", "floor", {1, 17, 4, 5}), 0u);
  EXPECT_GT(resize("linear", "pytorch_half_pixel", "floor", {1, 17, 18, 14}), 0u);
  EXPECT_EQ(resize("linear", "align_corners", "floor", {1, 17, 18, 14}), 0u);
  EXPECT_EQ(resize("nearest", "asymmetric", "ceil", {1, 17, 18, 14}), 0u);
}

struct RnnCase {
  std::string op, direction;
  bool reset, states;  // linear_before_reset; initial states are given
  int64_t steps, batch, input, hidden;
};

StepCase rnn_step(const RnnCase& r) {
  const bool lstm = r.op == "LSTM";
  const int64_t gates = lstm ? 4 : 3, d = r.direction == "bidirectional" ? 2 : 1;
  AttrList attrs{{"hidden_size", r.hidden}, {"direction", r.direction}};
  if (r.reset) attrs.emplace_back("linear_before_reset", int64_t{1});
  StepCase c{r.op,
             attrs,
             {random_f32({r.steps, r.batch, r.input}, 1), random_f32({d, gates * r.hidden, r.input}, 2),
              random_f32({d, gates * r.hidden, r.hidden}, 3), random_f32({d, 2 * gates * r.hidden}, 4)},
             {1, 2, 3},
             lstm ? 3 : 2};
  if (r.states) {
    c.inputs.push_back(none());
    c.inputs.push_back(random_f32({d, r.batch, r.hidden}, 5));
    if (lstm) c.inputs.push_back(random_f32({d, r.batch, r.hidden}, 6));
  }
  return c;
}

TEST(OnednnRnn, GatesStatesDirections) {
  for (const char* op : {"LSTM", "GRU"}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (const bool reset : {false, true}) {
        if (op == std::string("LSTM") && reset) continue;
        for (const bool states : {false, true}) {
          check_offered(rnn_step({op, direction, reset, states, 5, 3, 19, 24}), 1e-4);
        }
      }
    }
  }
}

// Where oneDNN would pack weights: one step, or a wide batch.
TEST(OnednnRnn, SingleStepsAndWideBatches) {
  for (const int64_t hidden : {1, 4, 15, 16, 40, 65}) {
    for (const char* op : {"LSTM", "GRU"}) {
      for (const bool reset : {false, true}) {
        if (op == std::string("LSTM") && reset) continue;
        check_offered(rnn_step({op, "forward", reset, true, 1, 1, 2, hidden}), 1e-4);
        check_offered(rnn_step({op, "bidirectional", reset, false, 3, 17, 3, hidden}), 1e-4);
        check_offered(rnn_step({op, "reverse", reset, false, 1, 40, 7, hidden}), 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace deepjit
