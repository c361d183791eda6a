#include "ops/op.h"

namespace deepjit {

void add_attention_ops(OpRegistry& registry) {}

}  // namespace deepjit
