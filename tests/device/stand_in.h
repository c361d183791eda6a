// The stand-in driver's own functions in a test, and an engine that computes on it: y = 2 * x + 1 over int64[1, N], and
// z, which is x again.
#pragma once

#include <cstdint>
#include <vector>

#include "fake_cuda.h"

namespace deepjit {

struct StandIn {
  decltype(&fake_cuda_take_counts) take_counts = nullptr;
  decltype(&fake_cuda_allocated) allocated = nullptr;
  decltype(&fake_cuda_allocate) allocate = nullptr;
  decltype(&fake_cuda_free) free = nullptr;
  decltype(&fake_cuda_stream) stream = nullptr;
  decltype(&fake_cuda_write) write = nullptr;
  decltype(&fake_cuda_finish) finish = nullptr;
};

// nullptr when the driver in use is not the stand-in.
const StandIn* stand_in();

// The engine as the bytes of its file. With `chooses` there is an input c: bool[], and y is x where it is false.
std::vector<uint8_t> twice_engine(bool chooses = false);
// The same with more outputs, which the host makes: s, the running sum of y, and t, that of x; y is no output.
std::vector<uint8_t> twice_and_sums_engine();

// Memory of the stand-in's with these words in it, freed at the end.
class StandInWords {
 public:
  StandInWords(size_t count, int kind = FAKE_CUDA_HERE, int64_t first = 0);
  StandInWords(const StandInWords&) = delete;
  StandInWords& operator=(const StandInWords&) = delete;
  ~StandInWords();
  int64_t* data() const { return data_; }
  // Of words that count up from `first`: whether these are 2 * x + 1, or x.
  bool twice(int64_t first, size_t count) const;
  bool same(int64_t first, size_t count) const;

 private:
  int64_t* data_;
};

}  // namespace deepjit
