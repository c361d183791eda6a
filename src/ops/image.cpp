#include "ops/op.h"

namespace deepjit {

void add_image_ops(OpRegistry& registry) {}

}  // namespace deepjit
