// The op that attention.cpp registers but rotary.cpp defines.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_rotary_embedding_op(OpRegistry& registry);

}  // namespace deepjit
