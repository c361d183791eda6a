// Cases of this very program in a process of its own: a driver and its libraries are loaded once.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace deepjit {

// All of `cases` pass with these variables of the environment ("A=1 B=2"), none is skipped, and there is one.
inline void pass_in_own_process(const std::string& environment, const std::string& cases) {
  const std::string command =
      environment + " /proc/" + std::to_string(getpid()) + "/exe --gtest_filter='" + cases + "' --gtest_brief=1 2>&1";
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

}  // namespace deepjit
