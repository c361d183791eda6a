// What a region of 16-bit values has to compute: each step in float32, rounded where a Cast of the model goes from
// another type to a 16-bit one, and where the region stores an output. Values between the steps are not rounded, nor is
// an output for the steps of the same region that read it. So do generated kernels.
//
// The copy is a region too, of the same operands: Casts to float32 where values come from outside, the steps on
// float32, and Casts back. Of a combo, each of its regions is copied so.
#pragma once

#include <deque>
#include <map>

#include "kernels/kernel.h"

namespace deepjit {

bool is_16_bit_float(DType type);

// Does a step inside the region read or write 16-bit floats?
bool computes_in_16_bits(const StepShape& region);

class WideRegion {
 public:
  // A step that is no region, or one without 16-bit floats, stays as it is. `step` must outlive the object.
  explicit WideRegion(const StepShape& step);
  WideRegion(const WideRegion&) = delete;
  WideRegion& operator=(const WideRegion&) = delete;

  const StepShape& shape() const { return shape_; }

 private:
  // One region's steps. Numbers of buffers that are float32 copies lie above all others.
  class Steps;

  void widen(StepShape& region);

  StepShape shape_;
  std::deque<Step> steps_;  // that shape_ refers to
};

}  // namespace deepjit
