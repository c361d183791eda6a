// The cuDNN provider without a GPU: the names of its tactics, what it offers and packs, and damaged engines.
#include "kernels/cudnn/choice.h"
#include "kernels/cudnn/library.h"
#include "provider_test_util.h"

namespace deepjit {
namespace {

using cudnn::EngineChoice;

TEST(CudnnChoice, TextTellsItAll) {
  const EngineChoice plain{34, {}}, knobs{0, {{2, 17}, {3, 0}, {45, 123456}}};
  EXPECT_EQ(to_string(plain), "eng34");
  EXPECT_EQ(to_string(knobs), "eng0.k2=17.k3=0.k45=123456");
  for (const EngineChoice& choice : {plain, knobs}) EXPECT_EQ(cudnn::parse_choice(to_string(choice)), choice);
  EXPECT_EQ(cudnn::parse_choice("heuristic"), std::nullopt);
}

TEST(CudnnChoice, DamagedText) {
  for (const char* text :
       {"", "eng", "eng-1", "34", "eng34.", "eng34.k2", "eng34.k2=", "eng34.k=1", "eng34.k2=1.k2=2", "eng34.k3=1.k2=1",
        "eng34.k2=1x", "eng034", "eng34 ", "eng9999999999999999999", "heuristics"}) {
    EXPECT_EQ(error_code_of([&] { cudnn::parse_choice(text); }), Code::ENGINE_RANGE) << text;
  }
}

TEST(CudnnProvider, WithoutAGpu) {
  const StepCase c{"deepjit.Conv",
                   {{"layout", std::string("NHWC")}},
                   {random_f32({1, 5, 5, 3}, 1), random_f32({4, 3, 3, 3}, 2)},
                   {1}};
  const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
  Program program;
  StepShape shape = bound.shape;
  shape.step = &bound.step;
  shape.program = &program;
  program.metadata["build.device"] = "cuda";
  Offer offer = cudnn_offerer().offer(shape);
  ASSERT_EQ(offer.tactics.size(), 1u);
  EXPECT_EQ(offer.tactics[0].variant, "heuristic");
  cudnn_offerer().pack(shape, offer.tactics[0]);
  ASSERT_EQ(offer.tactics[0].packed.size(), 1u);
  EXPECT_TRUE(cudnn_launcher().unpack(offer.tactics[0].packed[0], c.inputs[1].view().desc()).same_as(c.inputs[1]));
  EXPECT_EQ(cudnn_launcher().make(shape, offer.tactics[0]), nullptr);
  program.metadata["build.device"] = "null:80";
  EXPECT_TRUE(cudnn_offerer().offer(shape).tactics.empty());
  EXPECT_NE(cudnn_offerer().offer(shape).reason, "");
}

TEST(CudnnProvider, DamagedTacticsOfAnEngine) {
  const StepCase c{"Conv", {}, {random_f32({1, 3, 5, 5}, 1), random_f32({4, 3, 3, 3}, 2)}, {1}};
  const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
  const auto make = [&](const std::string& variant, const std::vector<PackedOperand>& packed) {
    Tactic tactic;
    tactic.variant = variant;
    tactic.packed = packed;
    return error_code_of([&] { cudnn_launcher().make(bound.shape, tactic); });
  };
  EXPECT_EQ(make("eng1.k", {}), Code::ENGINE_RANGE);
  EXPECT_EQ(make("eng1", {{1, "OHWI", Tensor(DType::UINT8, {10})}}), Code::ENGINE_RANGE);
  EXPECT_EQ(make("eng1", {{1, "OIHW", c.inputs[1]}}), Code::ENGINE_RANGE);
  EXPECT_EQ(make("eng1", {{0, "OHWI", c.inputs[1]}}), Code::ENGINE_RANGE);
  EXPECT_EQ(error_code_of([&] {
              cudnn_launcher().unpack({1, "OHWI", Tensor(DType::UINT8, {10})}, c.inputs[1].view().desc());
            }),
            Code::ENGINE_RANGE);
}

TEST(CudnnProvider, AMissingLibraryIsNamedWithWhatToInstall) {
  if (cudnn::find_library() != nullptr) GTEST_SKIP() << "cuDNN is here: " << cudnn::find_library()->file;
  try {
    cudnn::library();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::LIBRARY_MISSING);
    EXPECT_NE(std::string(e.hint()).find("nvidia-cudnn-cu13"), std::string::npos);
  }
}

}  // namespace
}  // namespace deepjit
