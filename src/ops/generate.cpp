#include "ops/op.h"

namespace deepjit {

void add_generate_ops(OpRegistry& registry) {}

}  // namespace deepjit
