// The handles of the C ABI, and how what is thrown becomes a status. Needs the public headers only.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "api/c_tensors.h"

namespace deepjit::c_api {

constexpr int kConcurrentUse = 801;
constexpr int kState = 803;

// The calling thread's last error; the code comes back.
deepjit_status fail(int code, const char* message) noexcept;
// The same from the exception in flight.
deepjit_status fail_as_thrown() noexcept;

// Runs `body`; whatever it throws becomes a status and the last error.
template <typename F>
deepjit_status status_of(F&& body) noexcept {
  try {
    body();
    return DEEPJIT_OK;
  } catch (...) {
    return fail_as_thrown();
  }
}

}  // namespace deepjit::c_api

struct deepjit_engine {
  explicit deepjit_engine(deepjit::Engine e)
      : engine(std::move(e)), inputs(engine.inputs()), outputs(engine.outputs()), device(engine.device()) {}
  deepjit::Engine engine;
  deepjit::c_api::InfoTable inputs;
  deepjit::c_api::InfoTable outputs;
  std::string device;
  mutable std::once_flag described;
  mutable std::string text;  // made when it is first asked for
};

struct deepjit_context {
  explicit deepjit_context(deepjit::Context c) : context(std::move(c)) {}

  deepjit::Context context;
  std::vector<deepjit::c_api::COutput> outputs;  // of the last run, when it succeeded
  std::vector<int32_t> memory;                   // where each lies
  bool finished = false;
  std::atomic<bool> running{false};
};
