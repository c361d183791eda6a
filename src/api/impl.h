// What stands behind the public Engine and Context, and the edge where internal errors become public ones.
#pragma once

#include "api/internal.h"

namespace deepjit {
inline namespace v1 {

struct Engine::Impl {
  // Takes a program that was built or loaded; `threads` 0 keeps the program's own number, `device` "" its device.
  Impl(Program program, Backing backing, int threads, const std::string& device);

  const Program& program() const { return engine->program(); }

  std::shared_ptr<const internal::Engine> engine;
  std::string graph_text;
  std::string lock_text;
  std::vector<LedgerEntry> edges;  // see EngineFile
  BuildReport report;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  int threads = 0;
};

// What is saved of it.
EngineFile file_of(const Engine::Impl& impl);

// For people; see Engine::inspect().
std::string describe(const Engine::Impl& impl);

// See Engine::profile(); `fed` in the program's order.
Profile profile_of(const Engine::Impl& impl, const std::vector<TensorView>& fed, const ProfileOptions& options);

std::vector<StepInfo> step_infos(const Program& program);
std::vector<WhyEntry> why_entries(const Program& program);

// Throws the exception in flight as a public Error; one that is already public passes as it is.
[[noreturn]] void rethrow_public();

// Runs `body`; whatever it throws leaves as a public Error.
template <typename F>
auto guarded(F&& body) {
  try {
    return body();
  } catch (...) {
    rethrow_public();
  }
}

}  // namespace v1
}  // namespace deepjit
