#include "base/tensor.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace deepjit {

TEST(Tensor, HasNoNegativeDims) {
  for (const Dims& dims : {Dims{-1}, Dims{0, -3}, Dims{-3, 0}, Dims{2, -1, -1}}) {
    try {
      Tensor made(DType::FLOAT32, dims);
      FAIL() << dims.to_string();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::SHAPE_MISMATCH);
    }
  }
  EXPECT_EQ(Tensor(DType::FLOAT32, {0, 3}).count(), 0);
}

}  // namespace deepjit
