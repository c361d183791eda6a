#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace deepjit::cli {

namespace {
constexpr std::chrono::milliseconds kTerminalPeriod{50};
constexpr std::chrono::seconds kPlainPeriod{5};
}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void Progress::update(const std::string& stage, size_t done, size_t total) {
  const auto now = Clock::now();
  const bool fresh = stage != stage_;
  const bool due = now - last_ >= (terminal_ ? Clock::duration(kTerminalPeriod) : Clock::duration(kPlainPeriod));
  if (!fresh && !due) return;
  stage_ = stage;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string text = fmt::format("[{:6.1f}s] {}", elapsed, stage);
  if (total > 0) text += fmt::format(" {}/{}", done, total);
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", text);
    shown_ = true;
  } else {
    fmt::print(stderr, "{}\n", text);
  }
  std::fflush(stderr);
}

void Progress::line(const std::string& text) {
  clear();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace deepjit::cli
