#include "ops/index/index.h"

namespace deepjit {

void throw_index_range(std::string_view op, int64_t index, int64_t limit) {
  throw Error(Code::INDEX_RANGE, std::string(op) + ": index " + std::to_string(index) + " is out of range [" +
                                     std::to_string(-limit) + ", " + std::to_string(limit - 1) + "]");
}

void add_index_ops(OpRegistry& registry) {
  add_gather_ops(registry);
  add_scatter_ops(registry);
  add_select_ops(registry);
  add_unique_ops(registry);
}

}  // namespace deepjit
