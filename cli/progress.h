// The live progress line of a build on stderr.
//
// On a terminal one line is rewritten: elapsed time, stage, done/total. Elsewhere each stage gets a plain line,
// and a long one a further line every few seconds. Other lines go through line(), which keeps the display whole.
#pragma once

#include <chrono>
#include <string>

namespace deepjit::cli {

class Progress {
 public:
  Progress();
  ~Progress();  // clears the live line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const std::string& stage, size_t done, size_t total);
  void line(const std::string& text);
  void finish() { clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
  std::string stage_;
};

}  // namespace deepjit::cli
