#include "ops/op.h"

namespace deepjit {

void add_signal_ops(OpRegistry& registry) {}

}  // namespace deepjit
