#include "base/limits.h"

#include "base/types.h"

namespace deepjit {

static_assert(limits::rank == kMaxRank);

std::span<const Limit> limit_table() {
  static constexpr Limit kTable[] = {
#define X(stage, name, value, unit, error, why) {stage, #name, value, unit, Code::error, why},
      DEEPJIT_LIMIT_TABLE(X)
#undef X
  };
  return kTable;
}

}  // namespace deepjit
