#include "ops/op.h"

namespace deepjit {

void add_rnn_ops(OpRegistry& registry) {}

}  // namespace deepjit
