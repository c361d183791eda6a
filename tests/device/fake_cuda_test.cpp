// The CUDA device on machines without a GPU: against a stand-in driver, and with none.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "device/device.h"
#include "own_process.h"

namespace deepjit {

namespace {

void pass_with_the_stand_in(const std::string& cases) {
  pass_in_own_process(std::string("DEEPJIT_CUDA_DRIVER=") + DEEPJIT_FAKE_CUDA, cases);
}

TEST(CudaDevice, KeepsItsPromisesWithTheStandInDriver) { pass_with_the_stand_in("Kinds/*/cuda"); }
TEST(CudaDevice, RunsTakeAndLeaveTensorsOnTheStandIn) { pass_with_the_stand_in("OnStandIn*"); }

TEST(CudaDevice, SaysWhatIsMissing) {
  if (std::getenv("DEEPJIT_CUDA_DRIVER") != nullptr) GTEST_SKIP() << "a driver is given";
  try {
    device::open("cuda");
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == Code::LIBRARY_MISSING || e.code() == Code::DEVICE_MISSING) << e.what();
    EXPECT_NE(std::string(e.what()).find("--device cpu"), std::string::npos) << e.what();
    return;
  }
  GTEST_SKIP() << "this machine has a CUDA device";
}

}  // namespace

}  // namespace deepjit
