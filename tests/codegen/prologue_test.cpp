// Products whose first operand is worked on as it is read (contract_case.h).
#include <gtest/gtest.h>

#include "contract_case.h"
#include "kernels/nvrtc/offer_contract.h"

namespace deepjit {
namespace {

constexpr DType F16 = DType::FLOAT16, BF16 = DType::BFLOAT16, F32 = DType::FLOAT32;

struct Before {
  std::string op;
  Attributes attrs = {};
  Dims operand = {};  // empty: it has none
  bool operand_first = false;
};

struct PrologueCase {
  DType type;
  std::vector<Before> before;
  std::string op;
  Attributes attrs;
  Dims x, weights, result;
  bool bias = false;
  std::vector<std::string> variants = {};
};

// A region of the steps, tuned as if they were one: x, weights, then what else comes from outside.
class Maker {
 public:
  explicit Maker(const PrologueCase& c) : c_(c), made_(std::make_unique<MadeCase>()) {
    made_->program.steps.reserve(16);
    made_->program.blocks.resize(1);
  }

  std::unique_ptr<MadeCase> run() {
    const int32_t x = outside(c_.x, false), w = outside(c_.weights, true);
    int32_t value = x;
    for (const Before& b : c_.before) {
      Step step{b.op, b.op, b.attrs, {value}};
      if (b.operand.rank() > 0)
        step.inputs.insert(b.operand_first ? step.inputs.begin() : step.inputs.end(), outside(b.operand, false));
      value = add(std::move(step), c_.x);
    }
    Step product{c_.op, c_.op, c_.attrs, {value, w}};
    if (c_.bias) product.inputs.push_back(outside({c_.result.back()}, true));
    const int32_t y = add(std::move(product), c_.result);
    Program& program = made_->program;
    Step region;
    region.op = kRegionOp;
    region.inputs = inputs_;
    region.outputs = {y};
    region.blocks = {0};
    program.blocks[0] = {inputs_, {y}, {}};
    for (size_t i = 0; i < program.steps.size(); ++i) program.blocks[0].steps.push_back(static_cast<int32_t>(i));
    program.steps.push_back(region);
    made_->shape = shape_of_step(program.steps.back());
    for (size_t i = 0; i + 1 < program.steps.size(); ++i) made_->shape.body.push_back(shape_of_step(program.steps[i]));
    made_->run_reference();
    made_->text = c_.op + " behind " + c_.before[0].op;
    return std::move(made_);
  }

 private:
  int32_t buffer(const Dims& dims, Tensor constant) {
    Program& program = made_->program;
    const bool known = constant.defined();
    program.buffers.push_back({"b", {c_.type, Shape(dims)}, known, std::move(constant)});
    return static_cast<int32_t>(program.buffers.size()) - 1;
  }

  int32_t outside(const Dims& dims, bool constant) {
    made_->data.push_back(random_operand(c_.type, dims, made_->data.size() + 1));
    inputs_.push_back(buffer(dims, constant ? made_->data.back() : Tensor()));
    return inputs_.back();
  }

  int32_t add(Step step, const Dims& dims) {
    step.outputs = {buffer(dims, Tensor())};
    made_->program.steps.push_back(std::move(step));
    return made_->program.steps.back().outputs[0];
  }

  StepShape shape_of_step(const Step& step) const {
    StepShape shape;
    shape.program = &made_->program;
    shape.step = &step;
    for (int32_t b : step.inputs) {
      const Buffer& own = made_->program.buffers[static_cast<size_t>(b)];
      shape.inputs.push_back({own.type.dtype, *own.type.shape.as_const()});
      shape.constants.push_back(own.is_constant ? &own.constant : nullptr);
    }
    const Buffer& out = made_->program.buffers[static_cast<size_t>(step.outputs[0])];
    shape.outputs.push_back({out.type.dtype, *out.type.shape.as_const()});
    return shape;
  }

  const PrologueCase& c_;
  std::unique_ptr<MadeCase> made_;
  std::vector<int32_t> inputs_;
};

Attributes pixels() { return with({{"layout", std::string("NHWC")}, {"kernel_shape", std::vector<int64_t>{1, 1}}}); }

std::vector<PrologueCase> every_prologue() {
  std::vector<PrologueCase> cases;
  for (DType type : {F16, BF16, F32}) {
    const std::string tile = type == F32 ? "fma32x32x16w2x1s3k1" : "mma64x64x32w2x2s3k1";
    const std::string split = type == F32 ? "fma32x32x16w2x1s3k2" : "mma16x32x128w1x2s3k2";
    // Squeeze and excite: a factor for each image and channel.
    cases.push_back({type,
                     {{"Mul", {}, {2, 1, 1, 40}}},
                     "deepjit.Conv",
                     pixels(),
                     {2, 5, 7, 40},
                     {24, 40, 1, 1},
                     {2, 5, 7, 24},
                     true,
                     {tile, split}});
    cases.push_back({type,
                     {{"Mul", {}, {2, 1, 1, 40}, true}},
                     "deepjit.Conv",
                     pixels(),
                     {2, 5, 7, 40},
                     {24, 40, 1, 1},
                     {2, 5, 7, 24},
                     false,
                     {tile}});
    // A scale, a shift and an activation, as behind a normalization that could not be folded; K is no multiple of 8.
    cases.push_back({type,
                     {{"Mul", {}, {36}}, {"Add", {}, {36}}, {"Relu"}},
                     "MatMul",
                     {},
                     {3, 11, 36},
                     {36, 20},
                     {3, 11, 20},
                     false,
                     {tile}});
    cases.push_back(
        {type, {{"Sub", {}, {11, 1}}, {"HardSigmoid"}}, "MatMul", {}, {11, 50}, {50, 9}, {11, 9}, false, {tile}});
    cases.push_back({type,
                     {{"Add", {}, {6, 17, 64}}, {"Gelu"}, {"Div", {}, {1}}},
                     "MatMul",
                     {},
                     {6, 17, 64},
                     {64, 33},
                     {6, 17, 33},
                     false,
                     {tile, split}});
  }
  return cases;
}

TEST(Prologue, AgreesWithItsSteps) {
  std::vector<std::unique_ptr<MadeCase>> made;
  std::vector<std::vector<std::string>> variants;
  for (const PrologueCase& c : every_prologue()) {
    made.push_back(Maker(c).run());
    variants.push_back(c.variants);
  }
  check_made(made, variants, false, {80, 90});
}

TEST(Prologue, OfGroupsOfWarps) {
  std::vector<std::unique_ptr<MadeCase>> made;
  made.push_back(Maker({F16,
                        {{"Mul", {}, {2, 1, 1, 72}}},
                        "deepjit.Conv",
                        pixels(),
                        {2, 9, 7, 72},
                        {24, 72, 1, 1},
                        {2, 9, 7, 24},
                        true})
                     .run());
  check_made(made, {{"wgmma64x64x64w4x1s3k1", "wgmma128x64x64w8x1s4k1"}}, false, {90});
}

TEST(Prologue, SaysWhyItIsNone) {
  const auto reason = [](const PrologueCase& c) { return nvrtc_gpu::contract_problem(Maker(c).run()->shape).reason; };
  const Dims x{4, 16}, w{16, 8}, y{4, 8};
  EXPECT_EQ(reason({F16, {{"Mul", {}, {4, 1}}}, "MatMul", {}, x, w, y}), "");
  EXPECT_EQ(reason({F16, {{"Sub", {}, {16}, true}}, "MatMul", {}, x, w, y}),
            "Sub is nothing that is done to an operand");
  EXPECT_EQ(reason({F16, {{"Floor"}}, "MatMul", {}, x, w, y}), "Floor is nothing that is done to an operand");
  const Attributes three = with({{"layout", std::string("NHWC")}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  EXPECT_EQ(reason({F16, {{"Relu"}}, "deepjit.Conv", three, {1, 4, 4, 8}, {8, 8, 3, 3}, {1, 4, 4, 8}}),
            "it does not read plain rows");
}

}  // namespace
}  // namespace deepjit
