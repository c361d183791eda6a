// libFuzzer target: ONNX bytes into the importer, see harness.h.
#include <algorithm>
#include <cstring>

#include "harness.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  deepjit::fuzz::run_import({data, size});
  return 0;
}

// Half of the mutations change the model, half its bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const deepjit::fuzz::Input changed = deepjit::fuzz::mutate_model({data, size}, random);
  if (changed.empty() || changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
