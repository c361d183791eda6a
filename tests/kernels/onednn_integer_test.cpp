// The oneDNN provider's 8-bit products and convolutions: sums are exact, requantized results at most one step off.
#include "provider_test_util.h"

namespace deepjit {
namespace {

using Ints = std::vector<int64_t>;

Tensor random_bytes(DType dtype, const Dims& dims, uint32_t seed) {
  std::mt19937 rng(seed);
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(rng());
  return t;
}
Tensor scalar_byte(DType dtype, int64_t v) { return dtype == DType::INT8 ? i8({}, {v}) : u8({}, {v}); }

bool has_vnni() { return __builtin_cpu_supports("avx512vnni"); }

// Machines without VNNI have no exact 8-bit implementation, so there is nothing to offer.
void check_offered(const StepCase& c, double tolerance) {
  const bool offered = !check_provider(onednn_offerer(), onednn_launcher(), c, tolerance).empty();
  EXPECT_TRUE(offered || !has_vnni()) << c.op;
}

constexpr double kOneStep = 1.01 / 127;

TEST(OnednnInteger, MatMulInteger) {
  for (const DType ta : {DType::UINT8, DType::INT8}) {
    for (const DType tb : {DType::UINT8, DType::INT8}) {
      const Tensor a = random_bytes(ta, {2, 9, 67}, 1), b = random_bytes(tb, {67, 45}, 2);
      check_offered(
          {"MatMulInteger", {}, {a, b, scalar_byte(ta, 77), scalar_byte(tb, tb == DType::UINT8 ? 128 : 0)}, {1, 3}}, 0);
      check_offered({"MatMulInteger", {}, {a, b, scalar_byte(ta, 3), scalar_byte(tb, 5)}, {1, 2, 3}}, 0);
    }
  }
  check_offered(
      {"MatMulInteger", {}, {random_bytes(DType::UINT8, {9, 67}, 1), random_bytes(DType::INT8, {67, 45}, 2)}, {1}}, 0);
}

TEST(OnednnInteger, QLinearMatMul) {
  for (const DType t : {DType::UINT8, DType::INT8}) {
    for (const bool columns : {false, true}) {
      const Tensor b_scale = columns ? random_f32({45}, 3, 0.001f, 0.02f) : f32({}, {0.01f});
      const Tensor b_zero = columns ? i8({45}, std::vector<int64_t>(45, 0)) : i8({}, {0});
      check_offered({"QLinearMatMul",
                     {},
                     {random_bytes(t, {2, 9, 67}, 1), f32({}, {0.02f}), scalar_byte(t, 12),
                      random_bytes(DType::INT8, {67, 45}, 2), b_scale, b_zero, f32({}, {0.3f}), scalar_byte(t, 7)},
                     {1, 2, 3, 4, 5, 6, 7}},
                    kOneStep);
    }
  }
}

TEST(OnednnInteger, ConvInteger) {
  for (const int64_t group : {1, 4}) {
    check_offered({"ConvInteger",
                   {{"pads", Ints{1, 1, 1, 1}}, {"group", group}},
                   {random_bytes(DType::UINT8, {2, 16, 9, 7}, 1), random_bytes(DType::INT8, {24, 16 / group, 3, 3}, 2),
                    scalar_byte(DType::UINT8, 100)},
                   {1}},
                  0);
  }
}

TEST(OnednnInteger, QLinearConv) {
  for (const DType tw : {DType::INT8, DType::UINT8}) {
    for (const int64_t group : {1, 16}) {
      const bool channels = tw == DType::INT8;
      const Tensor scale = channels ? random_f32({32}, 3, 0.001f, 0.02f) : f32({}, {0.01f});
      const Tensor zero = channels ? i8({32}, std::vector<int64_t>(32, 0)) : u8({}, {128});
      check_offered({"QLinearConv",
                     {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 1}}, {"group", group}},
                     {random_bytes(DType::UINT8, {2, 16, 9, 7}, 1), f32({}, {0.02f}), u8({}, {120}),
                      random_bytes(tw, {32, 16 / group, 3, 3}, 2), scale, zero, f32({}, {0.4f}), u8({}, {128}),
                      i32({32}, Ints(32, 1000))},
                     {1, 2, 3, 4, 5, 6, 7, 8}},
                    kOneStep);
    }
  }
}

}  // namespace
}  // namespace deepjit
