#include "ops/op.h"

namespace deepjit {

void add_pool_ops(OpRegistry& registry) {}

}  // namespace deepjit
