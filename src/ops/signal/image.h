// The ops that image.cpp registers but other files define.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_resize_op(OpRegistry& registry);  // resize.cpp
void add_roi_ops(OpRegistry& registry);    // roi.cpp: RoiAlign, MaxRoiPool

}  // namespace deepjit
