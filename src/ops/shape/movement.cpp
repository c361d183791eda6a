#include "ops/shape/movement.h"

namespace deepjit {

void add_movement_ops(OpRegistry& registry) {
  add_transpose_ops(registry);
  add_slice_ops(registry);
  add_concat_ops(registry);
  add_pad_ops(registry);
  add_expand_ops(registry);
}

}  // namespace deepjit
