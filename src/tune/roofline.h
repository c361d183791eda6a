// A measured time against what the GPU can do at most: is a kernel far from it, or better than can be?
//
// Bytes are those of the operands, each once, against the peak of the GPU's memory; operations (ops/work.h) against
// that of its tensor cores for products of 16-bit floats and tf32, else of its float32 lanes. A time is flagged when
// neither share reaches 30 %; below 5 us none is, since launching and filling the GPU take 2 or 3. It is suspicious
// when it is shorter than all operands take from the L2, or than what the L2 cannot hold takes from memory, or
// than 2.25 times less operations take, which is what Winograd's form of a 3x3 convolution saves.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "kernels/kernel.h"

namespace deepjit {

struct Roofline {
  double of_memory = 0, of_arithmetic = 0;  // shares of the peaks
  bool flagged = false, suspicious = false;
};

// Nothing where the GPU does not tell its clocks.
std::optional<Roofline> roofline_of(const StepShape& shape, double us, const device::Info& info);
// "41% of the memory's peak, 12% of the arithmetic's".
std::string to_string(const Roofline& roofline);

// The steps of a program that are far from the roofline or above it, one line a kind of step.
class RooflineReport {
 public:
  // `key` tells the kind of step.
  void add(const std::string& key, const Step& step, double us, const Roofline& roofline);
  // What costs a run most comes first.
  std::vector<std::string> flagged() const { return lines(false); }
  std::vector<std::string> suspicious() const { return lines(true); }

 private:
  struct Entry {
    const Step* step = nullptr;  // the first one
    double us = 0;
    Roofline roofline;
    int count = 0;
  };
  std::vector<std::string> lines(bool suspicious) const;
  std::map<std::string, Entry> entries_;
};

}  // namespace deepjit
