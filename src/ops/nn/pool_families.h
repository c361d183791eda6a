// The ops that pool.cpp registers but another file defines.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_global_pool_ops(OpRegistry& registry);  // pool_global.cpp: Global*Pool, MaxUnpool

}  // namespace deepjit
