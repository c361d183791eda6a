// Transpose, Concat, Split, Pad, Expand, Tile and the other ops that move elements.
#include <algorithm>
#include <numeric>

#include "op_test_util.h"

namespace deepjit {

namespace {

using Ints = std::vector<int64_t>;

std::vector<float> counting(int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

Tensor strings(const Dims& dims, const std::vector<std::string>& values) {
  return Tensor::from<std::string>(DType::STRING, dims, values);
}

}  // namespace

TEST(Transpose, MatchesTheDefinitionForEveryPermutation) {
  // Sizes above and below the block size of the copy, and a size of 1.
  for (const Dims& dims : {Dims{3, 20, 37}, Dims{40, 2, 33}, Dims{1, 17, 19}, Dims{5, 6, 3}}) {
    const Tensor in = f32(dims, counting(dims.count()));
    Ints perm = {0, 1, 2};
    do {
      const Tensor out = run_op("Transpose", {{"perm", perm}}, {in})[0];
      const Dims to = out.dims();
      const Dims from = dims.strides();
      int64_t k = 0;
      int64_t wrong = 0;
      for (int64_t a = 0; a < to[0]; ++a) {
        for (int64_t b = 0; b < to[1]; ++b) {
          for (int64_t c = 0; c < to[2]; ++c, ++k) {
            const int64_t source = a * from[static_cast<int>(perm[0])] + b * from[static_cast<int>(perm[1])] +
                                   c * from[static_cast<int>(perm[2])];
            wrong += out.as<float>()[k] != static_cast<float>(source);
          }
        }
      }
      EXPECT_EQ(wrong, 0) << dims.to_string() << " perm " << perm[0] << perm[1] << perm[2];
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

TEST(Transpose, ReversesAxesByDefaultAndMovesStringsAndBytes) {
  expect_equal(run_op("Transpose", {}, {u8({2, 3}, {1, 2, 3, 4, 5, 6})})[0], u8({3, 2}, {1, 4, 2, 5, 3, 6}));
  const Tensor words = run_op("Transpose", {}, {strings({2, 2}, {"a", "b", "c", "d"})})[0];
  EXPECT_TRUE(words.same_as(strings({2, 2}, {"a", "c", "b", "d"})));
  expect_equal(run_op("Transpose", {}, {f32({}, {7})})[0], f32({}, {7}));
  EXPECT_EQ(run_op("Transpose", {}, {f32({0, 3}, {})})[0].dims().to_string(), "[3,0]");
}

TEST(Transpose, ShapeRule) {
  EXPECT_EQ(infer_op("Transpose", {{"perm", Ints{0, 2, 1}}}, {{DType::FLOAT32, {"N", "196", "3"}}}).type(),
            "float32[N,3,196]");
  EXPECT_EQ(infer_op("Transpose", {}, {known_values({"N", "3"})}).value(), "N,3");
  EXPECT_EQ(error_code_of([] { run_op("Transpose", {{"perm", Ints{0, 0}}}, {f32({1, 1}, {0})}); }), Code::ATTRIBUTE);
  EXPECT_EQ(error_code_of([] { run_op("Transpose", {{"perm", Ints{0}}}, {f32({1, 1}, {0})}); }), Code::ATTRIBUTE);
}

TEST(Concat, JoinsAlongAnyAxis) {
  const Tensor a = f32({2, 1}, {1, 2});
  const Tensor b = f32({2, 2}, {3, 4, 5, 6});
  expect_equal(run_op("Concat", {{"axis", int64_t{1}}}, {a, b})[0], f32({2, 3}, {1, 3, 4, 2, 5, 6}));
  expect_equal(run_op("Concat", {{"axis", int64_t{-2}}}, {b, f32({1, 2}, {7, 8})})[0], f32({3, 2}, {3, 4, 5, 6, 7, 8}));
  expect_equal(run_op("Concat", {{"axis", int64_t{0}}}, {f32({0}, {}), f32({2}, {1, 2})})[0], f32({2}, {1, 2}));
  EXPECT_EQ(error_code_of([&] { run_op("Concat", {{"axis", int64_t{0}}}, {a, b}); }), Code::SHAPE_MISMATCH);
}

TEST(Concat, AddsSymbolicDimsAndJoinsValues) {
  const InferResult r = infer_op("Concat", {{"axis", int64_t{1}}},
                                 {{DType::FLOAT32, {"N", "C", "8"}}, {DType::FLOAT32, {"N", "3", "W"}}});
  EXPECT_EQ(r.type(), "float32[N,C+3,8]");
  EXPECT_EQ(infer_op("Concat", {{"axis", int64_t{0}}}, {known_values({"N"}), i64({2}, {3, -1})}).value(), "N,3,-1");
  EXPECT_EQ(infer_op("Concat", {{"axis", int64_t{0}}}, {known_values({"N"}), {DType::INT64, {"1"}}}).value(),
            "unknown");
}

TEST(Split, BySizesAndByCount) {
  const Tensor in = f32({2, 5}, counting(10));
  const auto by_size = run_op("Split", {{"axis", int64_t{1}}}, {in, i64({2}, {2, 3})}, 2);
  expect_equal(by_size[0], f32({2, 2}, {0, 1, 5, 6}));
  expect_equal(by_size[1], f32({2, 3}, {2, 3, 4, 7, 8, 9}));
  const auto by_count = run_op("Split", {{"axis", int64_t{-1}}, {"num_outputs", int64_t{3}}}, {in}, 3);
  expect_equal(by_count[1], f32({2, 2}, {2, 3, 7, 8}));
  expect_equal(by_count[2], f32({2, 1}, {4, 9}));
  EXPECT_EQ(error_code_of([&] {
              run_op("Split", {{"axis", int64_t{1}}}, {in, i64({2}, {2, 2})}, 2);
            }),
            Code::SHAPE_MISMATCH);
}

TEST(Split, SymbolicDims) {
  const AttrList halves = {{"axis", int64_t{0}}, {"num_outputs", int64_t{2}}};
  EXPECT_EQ(infer_op("Split", halves, {{DType::FLOAT32, {"N*4", "3"}}}, 2).type(1), "float32[N*2,3]");
  const InferResult odd = infer_op("Split", halves, {{DType::FLOAT32, {"N"}}}, 2);
  const auto five = [](const std::string&) { return std::optional<int64_t>(5); };
  EXPECT_EQ(odd.types[0].shape[0].evaluate(five), 3);
  EXPECT_EQ(odd.types[1].shape[0].evaluate(five), 2);
  const InferResult values = infer_op("Split", {}, {known_values({"N", "3", "H"}), i64({2}, {1, 2})}, 2);
  EXPECT_EQ(values.value(0), "N");
  EXPECT_EQ(values.value(1), "3,H");
}

TEST(Pad, Modes) {
  const Tensor in = f32({3}, {1, 2, 3});
  const Tensor pads = i64({2}, {2, 4});
  expect_equal(run_op("Pad", {}, {in, pads, f32({}, {9})})[0], f32({9}, {9, 9, 1, 2, 3, 9, 9, 9, 9}));
  expect_equal(run_op("Pad", {}, {in, pads})[0], f32({9}, {0, 0, 1, 2, 3, 0, 0, 0, 0}));
  expect_equal(run_op("Pad", {{"mode", std::string("edge")}}, {in, pads})[0], f32({9}, {1, 1, 1, 2, 3, 3, 3, 3, 3}));
  expect_equal(run_op("Pad", {{"mode", std::string("reflect")}}, {in, pads})[0], f32({9}, {3, 2, 1, 2, 3, 2, 1, 2, 3}));
  expect_equal(run_op("Pad", {{"mode", std::string("wrap")}}, {in, pads})[0], f32({9}, {2, 3, 1, 2, 3, 1, 2, 3, 1}));
}

TEST(Pad, NegativePadsCropAndAxesSelect) {
  const Tensor in = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_equal(run_op("Pad", {}, {in, i64({4}, {0, -1, 1, 1})})[0], f32({3, 3}, {2, 3, 0, 5, 6, 0, 0, 0, 0}));
  expect_equal(run_op("Pad", {{"mode", std::string("edge")}}, {in, i64({2}, {1, -2}), none(), i64({1}, {-1})})[0],
               f32({2, 2}, {1, 1, 4, 4}));
  // The padded axis is not the last one: whole rows move.
  expect_equal(run_op("Pad", {{"mode", std::string("reflect")}}, {in, i64({2}, {1, 0}), none(), i64({1}, {0})})[0],
               f32({3, 3}, {4, 5, 6, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(error_code_of([&] { run_op("Pad", {}, {in, i64({4}, {0, -2, 0, -2})}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] {
              run_op("Pad", {}, {in, i64({4}, {INT64_MIN, 0, INT64_MAX, 0})});
            }),
            Code::SHAPE_MISMATCH);
  EXPECT_EQ(infer_op("Pad", {}, {{DType::FLOAT32, {"N", "W"}}, i64({4}, {0, 1, 0, 2})}).type(), "float32[N,W+3]");
  EXPECT_EQ(infer_op("Pad", {}, {{DType::FLOAT32, {"W"}}, known_values({"0", "P"})}).type(), "float32[P+W]");
}

TEST(CenterCropPad, CropsAndPadsWithTheOddElementAtTheEnd) {
  const Tensor in = f32({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  expect_equal(run_op("CenterCropPad", {{"axes", Ints{-1}}}, {in, i64({1}, {2})})[0], f32({2, 2}, {2, 3, 7, 8}));
  expect_equal(run_op("CenterCropPad", {}, {in, i64({2}, {3, 3})})[0], f32({3, 3}, {2, 3, 4, 7, 8, 9, 0, 0, 0}));
}

TEST(Expand, BroadcastsBothWays) {
  expect_equal(run_op("Expand", {}, {f32({2, 1}, {1, 2}), i64({3}, {2, 1, 3})})[0],
               f32({2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  expect_equal(run_op("Expand", {}, {f32({1, 2}, {1, 2}), i64({1}, {1})})[0], f32({1, 2}, {1, 2}));
  EXPECT_EQ(run_op("Expand", {}, {f32({1}, {1}), i64({1}, {0})})[0].dims().to_string(), "[0]");
  EXPECT_EQ(error_code_of([] { run_op("Expand", {}, {f32({2}, {1, 2}), i64({1}, {3})}); }), Code::SHAPE_MISMATCH);
}

TEST(Expand, SymbolicDimsAndValues) {
  EXPECT_EQ(infer_op("Expand", {}, {{DType::FLOAT32, {"1", "8", "N"}}, known_values({"B", "1", "N"})}).type(),
            "float32[B,8,N]");
  EXPECT_EQ(infer_op("Expand", {}, {known_values({"N"}), i64({1}, {3})}).value(), "N,N,N");
  EXPECT_EQ(infer_op("Expand", {}, {{DType::FLOAT32, {"4", "3"}}, {DType::INT64, {"2"}}}).type(), "float32[4,3]");
}

TEST(Tile, RepeatsEachAxis) {
  expect_equal(run_op("Tile", {}, {f32({2, 2}, {1, 2, 3, 4}), i64({2}, {2, 2})})[0],
               f32({4, 4}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(run_op("Tile", {}, {f32({2}, {1, 2}), i64({1}, {0})})[0].dims().to_string(), "[0]");
  EXPECT_EQ(infer_op("Tile", {}, {{DType::FLOAT32, {"N", "3"}}, known_values({"2", "B"})}).type(), "float32[N*2,B*3]");
  EXPECT_EQ(infer_op("Tile", {}, {known_values({"N", "1"}), i64({1}, {2})}).value(), "N,1,N,1");
}

TEST(Blocks, SpaceToDepthAndBack) {
  const Tensor in = f32({1, 2, 4, 6}, counting(48));
  const Tensor deep = run_op("SpaceToDepth", {{"blocksize", int64_t{2}}}, {in})[0];
  EXPECT_EQ(deep.dims().to_string(), "[1,8,2,3]");
  EXPECT_EQ(deep.as<float>()[0], 0);
  EXPECT_EQ(deep.as<float>()[6], 24);  // channel 1 of the block's first corner
  EXPECT_EQ(deep.as<float>()[12], 1);  // the next column of channel 0
  expect_equal(run_op("DepthToSpace", {{"blocksize", int64_t{2}}}, {deep})[0], in);
  const Tensor crd = run_op("DepthToSpace", {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}},
                            {f32({1, 4, 1, 1}, {1, 2, 3, 4})})[0];
  expect_equal(crd, f32({1, 1, 2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(infer_op("DepthToSpace", {{"blocksize", int64_t{2}}}, {{DType::FLOAT32, {"N", "8", "H", "W"}}}).type(),
            "float32[N,2,H*2,W*2]");
  EXPECT_EQ(error_code_of([&] { run_op("SpaceToDepth", {{"blocksize", int64_t{4}}}, {in}); }), Code::SHAPE_MISMATCH);
}

TEST(ReverseSequence, ReversesTheFirstElementsOfEachBatchEntry) {
  const Tensor in = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  expect_equal(run_op("ReverseSequence", {}, {in, i64({2}, {2, 3})})[0], f32({3, 2}, {3, 6, 1, 4, 5, 2}));
  expect_equal(run_op("ReverseSequence", {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{0}}},
                      {f32({2, 3}, {1, 2, 3, 4, 5, 6}), i64({2}, {1, 3})})[0],
               f32({2, 3}, {1, 2, 3, 6, 5, 4}));
  EXPECT_EQ(error_code_of([&] { run_op("ReverseSequence", {}, {in, i64({2}, {2, 4})}); }), Code::INDEX_RANGE);
}

TEST(Trilu, KeepsATriangle) {
  const Tensor in = i64({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_equal(run_op("Trilu", {}, {in})[0], i64({3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9}));
  expect_equal(run_op("Trilu", {{"upper", int64_t{0}}}, {in, scalar_i64(-1)})[0],
               i64({3, 3}, {0, 0, 0, 4, 0, 0, 7, 8, 0}));
  expect_equal(run_op("Trilu", {}, {in, scalar_i64(INT64_MAX)})[0], i64({3, 3}, Ints(9, 0)));
  expect_equal(run_op("Trilu", {{"upper", int64_t{0}}}, {in, scalar_i64(INT64_MAX)})[0], in);
}

TEST(Movement, UnrankedInputsGiveUnrankedOutputs) {
  InferInput unranked(DType::FLOAT32, {});
  unranked.type.shape = Shape();
  EXPECT_EQ(infer_op("Transpose", {}, {unranked}).type(), "float32[*]");
  EXPECT_EQ(infer_op("Slice", {}, {unranked, i64({1}, {0}), i64({1}, {1})}).type(), "float32[*]");
  EXPECT_EQ(infer_op("Tile", {}, {unranked, i64({2}, {1, 1})}).types[0].shape.rank(), 2);
}

}  // namespace deepjit
