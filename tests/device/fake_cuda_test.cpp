// The CUDA device on machines without a GPU: against a stand-in driver, and with none.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "device/device.h"

namespace deepjit {

namespace {

// Cases of this very program against the stand-in driver, in a process of their own: a driver is loaded once.
void pass_with_the_stand_in(const std::string& cases) {
  const std::string command = std::string("DEEPJIT_CUDA_DRIVER=") + DEEPJIT_FAKE_CUDA + " /proc/" +
                              std::to_string(getpid()) + "/exe --gtest_filter='" + cases + "' --gtest_brief=1 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) output += line;
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
  EXPECT_NE(output.find("[  PASSED  ] "), std::string::npos) << output;
  EXPECT_EQ(output.find("[  PASSED  ] 0 tests"), std::string::npos) << output;
  EXPECT_EQ(output.find("SKIPPED"), std::string::npos) << output;
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
