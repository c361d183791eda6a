#include <gtest/gtest.h>

#include "ops/op.h"

namespace deepjit {

TEST(Registry, FindsOpsByName) {
  for (const OpDef* def : op_registry().all()) EXPECT_EQ(&find_op(def->name), def);
  EXPECT_THROW(find_op("NoSuchOp"), Error);
}

}  // namespace deepjit
