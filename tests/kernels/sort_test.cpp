// TopK, ArgMax, ArgMin, Hardmax, CumSum, CumProd and NonMaxSuppression.
#include "op_test_util.h"

namespace deepjit {

TEST(TopK, TiesGoToTheLowerIndex) {
  const auto out = run_op("TopK", {}, {f32({1, 6}, {1, 3, 3, 2, 3, 0}), i64({1}, {3})}, 2);
  expect_equal(out[0], f32({1, 3}, {3, 3, 3}));
  expect_equal(out[1], i64({1, 3}, {1, 2, 4}));
  const auto lowest = run_op("TopK", {{"largest", int64_t{0}}}, {i32({5}, {4, 1, 1, 9, 1}), i64({1}, {4})}, 2);
  expect_equal(lowest[0], i32({4}, {1, 1, 1, 4}));
  expect_equal(lowest[1], i64({4}, {1, 2, 4, 0}));
  // A long row with few distinct values takes the heap's path.
  std::vector<float> many(100, 1.0f);
  many[40] = many[70] = 2.0f;
  expect_equal(run_op("TopK", {}, {f32({100}, many), i64({1}, {4})}, 2)[1], i64({4}, {40, 70, 0, 1}));
}

TEST(TopK, OtherAxesAndLimits) {
  const Tensor in = f32({3, 2}, {1, 6, 5, 2, 3, 4});
  const auto out = run_op("TopK", {{"axis", int64_t{0}}}, {in, i64({1}, {2})}, 2);
  expect_equal(out[0], f32({2, 2}, {5, 6, 3, 4}));
  expect_equal(out[1], i64({2, 2}, {1, 0, 2, 2}));
  EXPECT_EQ(error_code_of([&] { run_op("TopK", {}, {in, i64({1}, {3})}, 2); }), Code::RUN_VALUE);
  EXPECT_EQ(run_op("TopK", {}, {in, i64({1}, {0})}, 2)[0].dims().to_string(), "[3,0]");
  EXPECT_EQ(infer_op("TopK", {}, {{DType::FLOAT32, {"N", "W"}}, known_values({"K"})}, 2).type(1), "int64[N,K]");
}

TEST(ArgMax, FirstOrLastOfEquals) {
  const Tensor in = f32({2, 3}, {1, 4, 4, 9, 2, 9});
  expect_equal(run_op("ArgMax", {{"axis", int64_t{1}}}, {in})[0], i64({2, 1}, {1, 0}));
  expect_equal(
      run_op("ArgMax", {{"axis", int64_t{-1}}, {"select_last_index", int64_t{1}}, {"keepdims", int64_t{0}}}, {in})[0],
      i64({2}, {2, 2}));
  expect_equal(run_op("ArgMin", {}, {in})[0], i64({1, 3}, {0, 1, 0}));
  expect_equal(run_op("ArgMax", {{"keepdims", int64_t{0}}}, {u8({3}, {7, 255, 3})})[0], i64({}, {1}));
  EXPECT_EQ(error_code_of([] { run_op("ArgMax", {}, {f32({0, 2}, {})}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(
      infer_op("ArgMax", {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {{DType::FLOAT32, {"N", "C", "W"}}}).type(),
      "int64[N,W]");
}

TEST(Hardmax, MarksTheFirstMaximum) {
  expect_equal(run_op("Hardmax", {}, {f32({2, 3}, {1, 3, 3, 2, 0, 1})})[0], f32({2, 3}, {0, 1, 0, 1, 0, 0}));
  expect_equal(run_op("Hardmax", {{"axis", int64_t{0}}}, {f16({2, 2}, {1, 3, 2, 3})})[0], f16({2, 2}, {0, 1, 1, 0}));
}

TEST(CumSum, ExclusiveAndReverse) {
  const Tensor in = f32({3}, {1, 2, 3});
  const Tensor axis = scalar_i64(0);
  const AttrList exclusive = {{"exclusive", int64_t{1}}};
  const AttrList reverse = {{"reverse", int64_t{1}}};
  const AttrList both = {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}};
  expect_equal(run_op("CumSum", {}, {in, axis})[0], f32({3}, {1, 3, 6}));
  expect_equal(run_op("CumSum", exclusive, {in, axis})[0], f32({3}, {0, 1, 3}));
  expect_equal(run_op("CumSum", reverse, {in, axis})[0], f32({3}, {6, 5, 3}));
  expect_equal(run_op("CumSum", both, {in, axis})[0], f32({3}, {5, 3, 0}));
  expect_equal(run_op("CumProd", both, {in, axis})[0], f32({3}, {6, 3, 1}));
  expect_equal(run_op("CumProd", {}, {i32({2, 2}, {2, 3, 4, 5}), scalar_i64(-2)})[0], i32({2, 2}, {2, 3, 8, 15}));
  EXPECT_EQ(error_code_of([&] { run_op("CumSum", {}, {in, scalar_i64(1)}); }), Code::ATTRIBUTE);
}

TEST(CumSum, Float16AccumulatesInFloat) {
  // 2048 + 1 is not a float16; in float the ones add up.
  expect_equal(run_op("CumSum", {}, {f16({3}, {2048, 1, 1}), scalar_i64(0)})[0], f16({3}, {2048, 2048, 2050}));
}

TEST(NonMaxSuppression, DropsOverlapsPerClass) {
  const Tensor boxes = f32({1, 4, 4}, {0, 0, 1, 1, /**/ 1, 1.1f, 0, 0.1f, /**/ 0, 10, 1, 11, /**/ 0, 0, 0, 0});
  const Tensor scores = f32({1, 2, 4}, {0.8f, 0.9f, 0.7f, 0.1f, 0.3f, 0.2f, 0.4f, 0.1f});
  const Tensor all =
      run_op("NonMaxSuppression", {}, {boxes, scores, i64({1}, {2}), f32({1}, {0.5f}), f32({1}, {0.25f})})[0];
  expect_equal(all, i64({4, 3}, {0, 0, 1, 0, 0, 2, 0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(run_op("NonMaxSuppression", {}, {boxes, scores})[0].dims().to_string(), "[0,3]");
  // As centers and sizes: the two boxes only touch, so both stay.
  const Tensor centers = f32({1, 2, 4}, {0.5f, 0.5f, 1, 1, 1.5f, 0.5f, 1, 1});
  EXPECT_EQ(run_op("NonMaxSuppression", {{"center_point_box", int64_t{1}}},
                   {centers, f32({1, 1, 2}, {0.1f, 0.9f}), i64({1}, {9})})[0]
                .to_i64(),
            (std::vector<int64_t>{0, 0, 1, 0, 0, 0}));
}

}  // namespace deepjit
