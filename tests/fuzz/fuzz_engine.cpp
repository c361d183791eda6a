// libFuzzer target: bytes into the engine reader and what it accepts into the runtime, see harness.h.
#include "harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  deepjit::fuzz::run_engine({data, size});
  return 0;
}
