// NVRTC at run time: where it is installed, what it makes of good and of bad text.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "codegen/cuda/nvrtc.h"
#include "cuda_run_util.h"

namespace deepjit {
namespace {

constexpr const char* kText = "extern \"C\" __global__ void add(float* x, float y) { x[threadIdx.x] += y; }";

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is not installed, or sanitizers watch";
  }
};

Code code_of(const std::string& text, int architecture) {
  try {
    nvrtc::compile(text, "t.cu", architecture);
  } catch (const Error& e) {
    return e.code();
  }
  return Code::OK;
}

TEST_F(Nvrtc, MakesACubinForEveryArchitecture) {
  EXPECT_FALSE(nvrtc::library_path().empty());
  for (int architecture : kCudaArchitectures) {
    const nvrtc::Cubin cubin = nvrtc::compile(kText, "t.cu", architecture);
    ASSERT_GT(cubin.bytes.size(), 4u);
    EXPECT_EQ(std::string(cubin.bytes.begin(), cubin.bytes.begin() + 4),
              "\x7f"
              "ELF")
        << architecture;
    EXPECT_EQ(cubin.log, "");
  }
}

TEST_F(Nvrtc, SaysWhatIsWrongWithTheText) {
  try {
    nvrtc::compile("extern \"C\" __global__ void f() { undefined_thing(); }", "t.cu", 80);
    FAIL() << "bad text was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::INTERNAL);
    EXPECT_NE(e.message().find("undefined_thing"), std::string::npos) << e.message();
  }
}

TEST_F(Nvrtc, RefusesArchitecturesThatItDoesNotKnow) { EXPECT_EQ(code_of(kText, 7), Code::ARGUMENT); }

TEST_F(Nvrtc, SeveralThreadsAtOnce) {
  std::vector<Code> codes(6, Code::INTERNAL);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < codes.size(); ++i) {
    threads.emplace_back([&, i] { codes[i] = code_of(i % 2 == 0 ? kText : "no text", 80); });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i % 2 == 0 ? Code::OK : Code::INTERNAL);
}

}  // namespace
}  // namespace deepjit
