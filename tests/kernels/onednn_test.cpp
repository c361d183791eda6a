// The oneDNN provider gives what the ops' references give, from plain and from packed weights.
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

TEST(OnednnConv, PlainNchw) {
  check_offered(
      {"Conv", {{"pads", Ints{1, 1, 1, 1}}}, {random_f32({2, 3, 17, 13}, 1), random_f32({16, 3, 3, 3}, 2)}, {1}});
  check_offered({"Conv",
                 {{"strides", Ints{2, 1}}, {"pads", Ints{0, 1, 2, 1}}},
                 {random_f32({1, 19, 15, 11}, 1), random_f32({21, 19, 3, 3}, 2), random_f32({21}, 3)},
                 {1, 2}});
  check_offered(
      {"Conv", {}, {random_f32({1, 40, 9, 7}, 1), random_f32({72, 40, 1, 1}, 2), random_f32({72}, 3)}, {1, 2}});
}

TEST(OnednnConv, ChannelsLast) {
  check_offered({"deepjit.Conv",
                 {{"layout", std::string("NHWC")}, {"pads", Ints{1, 1, 1, 1}}},
                 {random_f32({2, 9, 11, 24}, 1), random_f32({40, 24, 3, 3}, 2), random_f32({40}, 3)},
                 {1, 2}});
  check_offered({"deepjit.Conv",
                 {{"layout", std::string("NHWC")}, {"group", int64_t{33}}, {"pads", Ints{1, 1, 1, 1}}},
                 {random_f32({1, 9, 11, 33}, 1), random_f32({33, 1, 3, 3}, 2), random_f32({33}, 3)},
                 {1, 2}});
}

TEST(OnednnConv, GroupsDilationsRanks) {
  check_offered({"Conv",
                 {{"group", int64_t{4}}, {"dilations", Ints{2, 1}}},
                 {random_f32({2, 32, 15, 11}, 1), random_f32({64, 8, 3, 3}, 2)},
                 {1}});
  check_offered({"Conv",
                 {{"group", int64_t{32}}, {"pads", Ints{1, 1, 1, 1}}},
                 {random_f32({1, 32, 14, 11}, 1), random_f32({32, 1, 3, 3}, 2), random_f32({32}, 3)},
                 {1, 2}});
  check_offered({"Conv", {{"pads", Ints{2, 2}}}, {random_f32({2, 20, 50}, 1), random_f32({24, 20, 5}, 2)}, {1}});
  check_offered({"Conv", {}, {random_f32({1, 8, 7, 8, 9}, 1), random_f32({16, 8, 3, 3, 3}, 2)}, {1}});
}

TEST(OnednnConv, WeightsThatAreNotConstant) {
  check({"Conv", {}, {random_f32({1, 16, 9, 7}, 1), random_f32({32, 16, 3, 3}, 2)}});
}

TEST(OnednnConv, Epilogue) {
  for (const char* layout : {"NCHW", "NHWC"}) {
    const bool last = std::string(layout) == "NHWC";
    const Dims x = last ? Dims{2, 9, 11, 24} : Dims{2, 24, 9, 11}, y = last ? Dims{2, 9, 11, 48} : Dims{2, 48, 9, 11};
    const Dims channel = last ? Dims{48} : Dims{48, 1, 1};
    const std::vector<Strings> lists = {{"Relu"},
                                        {"Clip(0,6)"},
                                        {"HardSwish"},
                                        {"Mul($3)", "Add($4)", "Relu"},
                                        {"Add($5)", "Relu"},
                                        {"Swish(1)"},
                                        {"HardSigmoid(0.2,0.5)", "Linear(2,-1)"},
                                        {"Gelu"},
                                        {"Add($6)"}};
    for (const Strings& list : lists) {
      check_offered({"deepjit.Conv",
                     {{"layout", std::string(layout)}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", list}},
                     {random_f32(x, 1), random_f32({48, 24, 3, 3}, 2), random_f32({48}, 3), random_f32(channel, 4),
                      random_f32(channel, 5), random_f32(y, 6), random_f32({1}, 7)},
                     {1, 2, 3, 4}});
    }
  }
}

TEST(OnednnConvTranspose, ShapesAndGroups) {
  check_offered({"ConvTranspose",
                 {{"strides", Ints{2, 2}}},
                 {random_f32({1, 24, 9, 7}, 1), random_f32({24, 17, 2, 2}, 2), random_f32({17}, 3)},
                 {1, 2}});
  check_offered({"ConvTranspose",
                 {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 1}}},
                 {random_f32({2, 16, 9, 7}, 1), random_f32({16, 32, 3, 3}, 2)},
                 {1}});
  check({"ConvTranspose",
         {{"group", int64_t{4}}, {"strides", Ints{2, 1}}},
         {random_f32({1, 32, 5, 7}, 1), random_f32({32, 4, 3, 3}, 2)},
         {1}});
  check({"ConvTranspose", {{"strides", Ints{2}}}, {random_f32({1, 16, 9}, 1), random_f32({16, 8, 4}, 2)}, {1}});
  check_offered({"deepjit.ConvTranspose",
                 {{"layout", std::string("NHWC")}, {"strides", Ints{2, 2}}, {"epilogue", Strings{"Relu"}}},
                 {random_f32({1, 9, 7, 24}, 1), random_f32({24, 17, 2, 2}, 2), random_f32({17}, 3)},
                 {1, 2}});
}

TEST(OnednnMatMul, Ranks) {
  check_offered({"MatMul", {}, {random_f32({7, 33}, 1), random_f32({33, 19}, 2)}, {1}});
  check_offered({"MatMul", {}, {random_f32({7, 33}, 1), random_f32({33, 19}, 2)}});
  check_offered({"MatMul", {}, {random_f32({2, 5, 7, 33}, 1), random_f32({33, 19}, 2)}, {1}});
  check_offered({"MatMul", {}, {random_f32({2, 5, 7, 33}, 1), random_f32({5, 33, 19}, 2)}});
  check_offered({"MatMul", {}, {random_f32({2, 1, 7, 33}, 1), random_f32({5, 33, 19}, 2)}});
  check_offered({"MatMul", {}, {random_f32({33}, 1), random_f32({33, 19}, 2)}, {1}});
  check_offered({"MatMul", {}, {random_f32({4, 7, 33}, 1), random_f32({33}, 2)}, {1}});
}

TEST(OnednnMatMul, Gemm) {
  for (const int64_t ta : {0, 1}) {
    for (const int64_t tb : {0, 1}) {
      const Dims a = ta ? Dims{33, 7} : Dims{7, 33}, b = tb ? Dims{19, 33} : Dims{33, 19};
      check_offered({"Gemm",
                     {{"transA", ta}, {"transB", tb}, {"alpha", 0.5f}},
                     {random_f32(a, 1), random_f32(b, 2), random_f32({19}, 3)},
                     {1}});
      check_offered(
          {"Gemm", {{"transA", ta}, {"transB", tb}}, {random_f32(a, 1), random_f32(b, 2), random_f32({19}, 3)}, {1}});
      check(
          {"Gemm", {{"transA", ta}, {"transB", tb}}, {random_f32(a, 1), random_f32(b, 2), random_f32({7, 1}, 3)}, {1}});
    }
  }
}

TEST(OnednnMatMul, FusedForms) {
  const Tensor a = random_f32({2, 5, 7, 32}, 1), b = random_f32({32, 48}, 2), bias = random_f32({48}, 3);
  for (const Strings& list :
       std::vector<Strings>{{"Gelu"}, {"Add($3)"}, {"Mul($4)", "Relu"}, {"Linear(0.125,0)", "Add($5)"}}) {
    check_offered({"deepjit.MatMul",
                   {{"epilogue", list}},
                   {a, b, bias, random_f32({2, 5, 7, 48}, 4), random_f32({48}, 5), random_f32({2, 1, 7, 48}, 6)},
                   {1, 2}});
  }
  check_offered({"deepjit.MatMul",
                 {{"trans_b", int64_t{1}}, {"epilogue", Strings{"Linear(0.125,0)"}}},
                 {random_f32({2, 3, 9, 16}, 1), random_f32({2, 3, 11, 16}, 2)}});
  check_offered({"deepjit.MatMul", {{"trans_b", int64_t{1}}}, {random_f32({9, 16}, 1), random_f32({11, 16}, 2)}, {1}});
}

TEST(OnednnEltwise, OneInput) {
  const Tensor x = random_f32({3, 5, 17}, 1, -4, 4), positive = random_f32({3, 5, 17}, 2, 0.1f, 4);
  for (const char* op : {"Sigmoid", "Tanh", "Abs", "HardSwish", "LeakyRelu", "Gelu", "Swish", "Round"}) {
    if (op_registry().find(op) != nullptr) check_offered({op, {}, {x}}, 1e-5);
  }
  check_offered({"Sqrt", {}, {positive}}, 1e-5);
  check_offered({"Gelu", {{"approximate", std::string("tanh")}}, {x}}, 1e-5);
}

TEST(OnednnBinary, Broadcasts) {
  const Tensor full = random_f32({2, 17, 5, 7}, 1);
  const std::vector<Dims> shapes = {{2, 17, 5, 7}, {17, 1, 1}, {1}, {7}, {2, 17, 1, 1}, {5, 7}, {2, 1, 5, 7}};
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    for (const Dims& dims : shapes) {
      check({op, {}, {full, random_f32(dims, 2, 0.5f, 2)}}, 1e-6);
      check({op, {}, {random_f32(dims, 2, 0.5f, 2), random_f32({2, 17, 5, 7}, 3, 0.5f, 2)}}, 1e-6);
    }
    check_offered({op, {}, {full, random_f32({17, 1, 1}, 2, 0.5f, 2)}}, 1e-6);
  }
}

// An engine made for one shape serves others: the packed weights are laid out again where oneDNN wants another form.
TEST(OnednnConv, PackedWeightsServeOtherShapes) {
  StepCase built{"Conv", {}, {random_f32({1, 32, 28, 28}, 1), random_f32({48, 32, 3, 3}, 2)}, {1}};
  StepCase used{"Conv", {}, {random_f32({5, 32, 7, 3}, 3), built.inputs[1]}, {}};
  const std::vector<Tensor> built_out = run_op("Conv", {}, built.inputs), expected = run_op("Conv", {}, used.inputs);
  const BoundCase at_build(built, built_out), at_run(used, expected);
  int packed_tactics = 0;
  for (Tactic tactic : onednn_offerer().offer(at_build.shape).tactics) {
    onednn_offerer().pack(at_build.shape, tactic);
    if (tactic.packed.empty()) continue;  // this one takes the plain weights
    ++packed_tactics;
    const std::unique_ptr<Kernel> kernel = onednn_launcher().make(at_run.shape, tactic);
    ASSERT_NE(kernel, nullptr) << tactic.variant;
    EXPECT_LE(relative_error(run_kernel(*kernel, used, expected, {1})[0], expected[0]), 1e-5) << tactic.variant;
  }
  EXPECT_GT(packed_tactics, 0);
}

TEST(OnednnPacked, DamagedTextIsAnError) {
  Tensor data(DType::UINT8, Dims{64});
  const TensorDesc plain{DType::FLOAT32, {4, 4}};
  for (const char* text : {"", "f32", "f32:4x4:ab", "f32:4x4:nonsense:ab", "f99:4x4:ab:ab", "f32:4x5:ab:ab",
                           "f32:4x-4:ab:ab", "f32:99999999999999999x99999999999999999:ab:ab", "f32:4x4:abcd:ab"}) {
    const PackedOperand packed{0, text, data};
    EXPECT_EQ(error_code_of([&] { onednn_launcher().unpack(packed, plain); }), Code::ENGINE_RANGE) << text;
  }
}

TEST(ReferenceProvider, RunsAnyOp) {
  check_provider(reference_offerer(), reference_launcher(), {"Add", {}, {random_f32({2, 3}, 1), random_f32({3}, 2)}},
                 0);
  StepCase c{"MatMul", {}, {random_f32({7, 33}, 1), random_f32({33, 19}, 2)}};
  check_provider(reference_offerer(), reference_launcher(), c, 0);
}

}  // namespace
}  // namespace deepjit
