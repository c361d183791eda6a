// Gather, Scatter, NonZero, Compress, Unique and TensorScatter.
#include <limits>

#include "op_test_util.h"

namespace deepjit {

namespace {

using Ints = std::vector<int64_t>;
const Tensor kMatrix = f32({3, 2}, {1, 2, 3, 4, 5, 6});

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST(Gather, AlongAnyAxisWithNegativeIndices) {
  expect_equal(run_op("Gather", {}, {kMatrix, i64({2}, {-1, 0})})[0], f32({2, 2}, {5, 6, 1, 2}));
  expect_equal(run_op("Gather", {{"axis", int64_t{1}}}, {kMatrix, i32({1, 2}, {1, 1})})[0],
               f32({3, 1, 2}, {2, 2, 4, 4, 6, 6}));
  expect_equal(run_op("Gather", {{"axis", int64_t{-1}}}, {kMatrix, scalar_i64(0)})[0], f32({3}, {1, 3, 5}));
  EXPECT_EQ(run_op("Gather", {}, {kMatrix, i64({0}, {})})[0].dims().to_string(), "[0,2]");
}

TEST(Gather, NamesTheIndexThatIsOutOfRange) {
  EXPECT_EQ(error_code_of([] { run_op("Gather", {}, {kMatrix, i64({1}, {3})}); }), Code::INDEX_RANGE);
  const std::string text = message_of([] { run_op("Gather", {}, {kMatrix, i64({1}, {-4})}); });
  EXPECT_NE(text.find("-4"), std::string::npos) << text;
  EXPECT_NE(text.find("[-3, 2]"), std::string::npos) << text;
}

TEST(Gather, ShapeRuleAndValues) {
  EXPECT_EQ(infer_op("Gather", {{"axis", int64_t{1}}}, {{DType::FLOAT32, {"N", "8", "W"}}, {DType::INT64, {"K", "2"}}})
                .type(),
            "float32[N,K,2,W]");
  const InferResult picked = infer_op("Gather", {}, {known_values({"N", "3", "H"}), scalar_i64(-1)});
  EXPECT_EQ(picked.type(), "int64[]");
  EXPECT_EQ(picked.value(), "H");
  EXPECT_EQ(infer_op("Gather", {}, {known_values({"N", "3", "H"}), i64({2}, {2, 0})}).value(), "H,N");
}

TEST(GatherElements, NegativeIndexWraps) {
  expect_equal(run_op("GatherElements", {{"axis", int64_t{1}}}, {kMatrix, i64({2, 1}, {-1, 0})})[0],
               f32({2, 1}, {2, 3}));
  expect_equal(run_op("GatherElements", {}, {kMatrix, i64({1, 2}, {2, -3})})[0], f32({1, 2}, {5, 2}));
  EXPECT_EQ(error_code_of([] { run_op("GatherElements", {}, {kMatrix, i64({1, 2}, {3, 0})}); }), Code::INDEX_RANGE);
}

TEST(GatherND, TuplesAndBatches) {
  expect_equal(run_op("GatherND", {}, {kMatrix, i64({2, 2}, {0, 1, -1, 0})})[0], f32({2}, {2, 5}));
  expect_equal(run_op("GatherND", {}, {kMatrix, i64({1, 1}, {1})})[0], f32({1, 2}, {3, 4}));
  const Tensor cube = f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_equal(run_op("GatherND", {{"batch_dims", int64_t{1}}}, {cube, i64({2, 1}, {1, 0})})[0],
               f32({2, 2}, {2, 3, 4, 5}));
  EXPECT_EQ(infer_op("GatherND", {}, {{DType::FLOAT32, {"N", "C", "W"}}, {DType::INT64, {"K", "2"}}}).type(),
            "float32[K,W]");
  EXPECT_EQ(error_code_of([] { run_op("GatherND", {}, {kMatrix, i64({1, 2}, {0, 2})}); }), Code::INDEX_RANGE);
}

TEST(ScatterElements, ReplacesAndReduces) {
  const Tensor data = f32({1, 4}, {1, 2, 3, 4});
  const Tensor at = i64({1, 3}, {1, 1, -1});
  const Tensor updates = f32({1, 3}, {10, 20, 30});
  const auto run = [&](const std::string& reduction) {
    return run_op("ScatterElements", {{"axis", int64_t{1}}, {"reduction", reduction}}, {data, at, updates})[0];
  };
  expect_equal(run("none"), f32({1, 4}, {1, 20, 3, 30}));
  expect_equal(run("add"), f32({1, 4}, {1, 32, 3, 34}));
  expect_equal(run("mul"), f32({1, 4}, {1, 400, 3, 120}));
  expect_equal(run("max"), f32({1, 4}, {1, 20, 3, 30}));
  expect_equal(run("min"), f32({1, 4}, {1, 2, 3, 4}));
  expect_equal(run_op("ScatterElements", {}, {kMatrix, i64({1, 2}, {2, 0}), f32({1, 2}, {-1, -2})})[0],
               f32({3, 2}, {1, -2, 3, 4, -1, 6}));
  EXPECT_EQ(error_code_of([&] {
              run_op("ScatterElements", {}, {data, i64({1, 1}, {1}), f32({1, 1}, {0})});
            }),
            Code::INDEX_RANGE);
  EXPECT_EQ(error_code_of([&] { run("mean"); }), Code::ATTRIBUTE);
}

TEST(ScatterND, DuplicatesAddUpAndTheLastOneWins) {
  const Tensor zeros = f32({4}, {0, 0, 0, 0});
  const Tensor at = i64({3, 1}, {1, 3, 3});
  const Tensor updates = f32({3}, {3, 1, 4});
  expect_equal(run_op("ScatterND", {{"reduction", std::string("add")}}, {zeros, at, updates})[0],
               f32({4}, {0, 3, 0, 5}));
  expect_equal(run_op("ScatterND", {}, {zeros, at, updates})[0], f32({4}, {0, 3, 0, 4}));
  expect_equal(run_op("ScatterND", {}, {kMatrix, i64({1, 1}, {-2}), f32({1, 2}, {8, 9})})[0],
               f32({3, 2}, {1, 2, 8, 9, 5, 6}));
  expect_equal(run_op("ScatterND", {{"reduction", std::string("mul")}},
                      {f16({2}, {2, 3}), i64({2, 1}, {0, 0}), f16({2}, {3, 4})})[0],
               f16({2}, {24, 3}));
  EXPECT_EQ(error_code_of([&] { run_op("ScatterND", {}, {zeros, at, f32({2}, {1, 2})}); }), Code::SHAPE_MISMATCH);
}

TEST(NonZero, CountsTheScalarCase) {
  EXPECT_EQ(run_op("NonZero", {}, {f32({}, {0})})[0].dims().to_string(), "[0,0]");
  EXPECT_EQ(run_op("NonZero", {}, {f32({}, {5})})[0].dims().to_string(), "[0,1]");
}

TEST(NonZero, ListsPositionsInOrder) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_equal(run_op("NonZero", {}, {f32({2, 2}, {-0.0f, nan, 1, 0})})[0], i64({2, 2}, {0, 1, 1, 0}));
  expect_equal(run_op("NonZero", {}, {bools({3}, {1, 0, 1})})[0], i64({1, 2}, {0, 2}));
  EXPECT_EQ(run_op("NonZero", {}, {f32({0, 3}, {})})[0].dims().to_string(), "[2,0]");
  const InferResult r = infer_op("NonZero", {}, {{DType::FLOAT32, {"N", "3"}}});
  EXPECT_EQ(r.types[0].shape[0], 2);
  EXPECT_TRUE(r.types[0].shape[1].is_symbol());
}

TEST(Compress, TakesWhereTrue) {
  expect_equal(run_op("Compress", {{"axis", int64_t{0}}}, {kMatrix, bools({3}, {0, 1, 1})})[0],
               f32({2, 2}, {3, 4, 5, 6}));
  expect_equal(run_op("Compress", {{"axis", int64_t{-1}}}, {kMatrix, bools({1}, {1})})[0], f32({3, 1}, {1, 3, 5}));
  expect_equal(run_op("Compress", {}, {kMatrix, bools({5}, {0, 1, 0, 0, 1})})[0], f32({2}, {2, 5}));
  EXPECT_EQ(error_code_of([] {
              run_op("Compress", {{"axis", int64_t{1}}}, {kMatrix, bools({3}, {0, 0, 1})});
            }),
            Code::INDEX_RANGE);
}

TEST(Unique, SortedAndByFirstOccurrence) {
  const Tensor x = f32({6}, {2, 1, 1, 3, 4, 3});
  const auto sorted = run_op("Unique", {}, {x}, 4);
  expect_equal(sorted[0], f32({4}, {1, 2, 3, 4}));
  expect_equal(sorted[1], i64({4}, {1, 0, 3, 4}));
  expect_equal(sorted[2], i64({6}, {1, 0, 0, 2, 3, 2}));
  expect_equal(sorted[3], i64({4}, {2, 1, 2, 1}));
  const auto in_order = run_op("Unique", {{"sorted", int64_t{0}}}, {x}, 4);
  expect_equal(in_order[0], f32({4}, {2, 1, 3, 4}));
  expect_equal(in_order[2], i64({6}, {0, 1, 1, 2, 3, 2}));
  expect_equal(in_order[3], i64({4}, {1, 2, 2, 1}));
}

TEST(Unique, SlicesAlongAnAxis) {
  const auto rows = run_op("Unique", {{"axis", int64_t{0}}}, {f32({3, 2}, {2, 3, 1, 0, 2, 3})}, 4);
  expect_equal(rows[0], f32({2, 2}, {1, 0, 2, 3}));
  expect_equal(rows[1], i64({2}, {1, 0}));
  const auto columns = run_op("Unique", {{"axis", int64_t{1}}}, {f32({2, 3}, {1, 0, 1, 1, 5, 1})}, 4);
  expect_equal(columns[0], f32({2, 2}, {0, 1, 5, 1}));
  expect_equal(columns[2], i64({3}, {1, 0, 1}));
  EXPECT_EQ(run_op("Unique", {}, {f32({0}, {})})[0].dims().to_string(), "[0]");
}

TEST(TensorScatter, WritesIntoTheCache) {
  const Tensor cache = f32({2, 1, 3, 1}, {1, 2, 3, 4, 5, 6});
  const Tensor update = f32({2, 1, 2, 1}, {7, 8, 9, 10});
  expect_equal(run_op("TensorScatter", {}, {cache, update, i64({2}, {1, 0})})[0],
               f32({2, 1, 3, 1}, {1, 7, 8, 9, 10, 6}));
  expect_equal(run_op("TensorScatter", {{"mode", std::string("circular")}}, {cache, update, i64({2}, {2, 1})})[0],
               f32({2, 1, 3, 1}, {8, 2, 7, 4, 9, 10}));
  EXPECT_EQ(error_code_of([&] { run_op("TensorScatter", {}, {cache, update, i64({2}, {2, 0})}); }), Code::INDEX_RANGE);
}

}  // namespace deepjit
