#include "passes/cleanup/casts.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

TEST(Casts, LosslessChains) {
  expect_pass("casts", merge_casts,
              "graph @g(%x: float16[N]) -> (%y) { %a = Cast(%x) {to=1} %b = Cast(%a) {to=10} %y = Neg(%b) }",
              "graph @g(%x: float16[N]) -> (%y) { %y = Neg(%x) }");
  expect_pass("casts", merge_casts, "graph @g(%x: int8[N]) -> (%y) { %a = Cast(%x) {to=6} %y = Cast(%a) {to=1} }",
              "graph @g(%x: int8[N]) -> (%y) { %y = Cast(%x) {to=1} }");
  expect_pass("casts", merge_casts,
              "graph @g(%x: bool[N]) -> (%y) { %a = Cast(%x) {to=1} %b = Cast(%a) {to=9} %y = Not(%b) }",
              "graph @g(%x: bool[N]) -> (%y) { %y = Not(%x) }");
}

TEST(Casts, ChainsThatRoundStay) {
  for (const char* text : {
           "graph @g(%x: float32[N]) -> (%y) { %a = Cast(%x) {to=10} %y = Cast(%a) {to=1} }",
           "graph @g(%x: float32[N]) -> (%y) { %a = Cast(%x) {to=6} %y = Cast(%a) {to=1} }",
           "graph @g(%x: int64[N]) -> (%y) { %a = Cast(%x) {to=6} %y = Cast(%a) {to=7} }",
           "graph @g(%x: int32[N]) -> (%y) { %a = Cast(%x) {to=9} %y = Cast(%a) {to=6} }",
           "graph @g(%x: float16[N]) -> (%y) { %a = Cast(%x) {to=16} %y = Cast(%a) {to=10} }",
       }) {
    expect_unchanged("casts", merge_casts, text);
  }
}

TEST(Casts, Exactness) {
  EXPECT_TRUE(cast_is_exact(DType::UINT8, DType::INT16));
  EXPECT_FALSE(cast_is_exact(DType::INT8, DType::UINT8));
  EXPECT_FALSE(cast_is_exact(DType::UINT8, DType::INT8));
  EXPECT_TRUE(cast_is_exact(DType::UINT16, DType::FLOAT32));
  EXPECT_FALSE(cast_is_exact(DType::INT32, DType::FLOAT32));
  EXPECT_TRUE(cast_is_exact(DType::INT32, DType::FLOAT64));
  EXPECT_FALSE(cast_is_exact(DType::FLOAT16, DType::BFLOAT16));
}

}  // namespace
}  // namespace deepjit
