// DFT, STFT and MelWeightMatrix.
#include <numbers>
#include <random>

#include "op_test_util.h"
#include "ops/signal/fft.h"

namespace deepjit {

TEST(Fft, MatchesTheDefinitionAtEveryLength) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 34, 97, 100, 128, 143, 400, 480}) {
    for (bool inverse : {false, true}) {
      std::vector<Fft::Complex> x(static_cast<size_t>(n));
      for (auto& v : x) v = {uniform(random), uniform(random)};
      std::vector<Fft::Complex> y = x;
      const Fft fft(n, inverse);
      std::vector<Fft::Complex> scratch(static_cast<size_t>(fft.scratch_size()));
      fft.run(y.data(), scratch.data());
      double worst = 0;
      for (int64_t k = 0; k < n; ++k) {
        Fft::Complex sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          const double angle = (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k % n) / n;
          sum += x[static_cast<size_t>(j)] * std::polar(1.0, angle);
        }
        worst = std::max(worst, std::abs(sum - y[static_cast<size_t>(k)]));
      }
      EXPECT_LT(worst, 1e-11) << n << (inverse ? " inverse" : "");
    }
  }
}

TEST(Dft, KnownTransforms) {
  // [1,2,3,4] -> 10, -2+2i, -2, -2-2i
  const Tensor in = f32({1, 4, 1}, {1, 2, 3, 4});
  const Tensor full = f32({1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2});
  expect_close(run_op("DFT", {}, {in})[0], full);
  const Tensor half = f32({1, 3, 2}, {10, 0, -2, 2, -2, 0});
  expect_close(run_op("DFT", {{"onesided", int64_t{1}}}, {in, none(), scalar_i64(1)})[0], half);
  expect_close(run_op("DFT", {{"inverse", int64_t{1}}}, {full})[0], f32({1, 4, 2}, {1, 0, 2, 0, 3, 0, 4, 0}));
  expect_close(run_op("DFT", {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}}, {half})[0], in);
}

TEST(Dft, LengthPadsAndCutsAndOtherAxesWork) {
  expect_close(run_op("DFT", {}, {f32({1, 2, 1}, {1, 2}), scalar_i64(4)})[0],
               f32({1, 4, 2}, {3, 0, 1, -2, -1, 0, 1, 2}));
  expect_close(run_op("DFT", {}, {f32({1, 4, 1}, {1, 2, 9, 9}), scalar_i64(2)})[0], f32({1, 2, 2}, {3, 0, -1, 0}));
  expect_close(run_op("DFT", {}, {f32({2, 2, 1}, {1, 10, 2, 20}), none(), scalar_i64(0)})[0],
               f32({2, 2, 2}, {3, 0, 30, 0, -1, 0, -10, 0}));
  EXPECT_EQ(error_code_of([] {
              run_op("DFT", {}, {f32({1, 2, 1}, {1, 2}), none(), scalar_i64(-1)});
            }),
            Code::ATTRIBUTE);
  EXPECT_EQ(infer_op("DFT", {{"onesided", int64_t{1}}}, {{DType::FLOAT32, {"N", "L*2", "1"}}}).type(),
            "float32[N,L+1,2]");
}

TEST(Stft, FramesOfAWindowedSignal) {
  const Tensor signal = f32({1, 6, 1}, {1, 2, 3, 4, 5, 6});
  const Tensor plain = run_op("STFT", {}, {signal, scalar_i64(2), none(), scalar_i64(4)})[0];
  expect_close(plain, f32({1, 2, 3, 2}, {10, 0, -2, 2, -2, 0, 18, 0, -2, 2, -2, 0}));
  const Tensor windowed = run_op("STFT", {{"onesided", int64_t{0}}}, {signal, scalar_i64(4), f32({2}, {1, 0.5f})})[0];
  expect_close(windowed, f32({1, 2, 2, 2}, {2, 0, 0, 0, 8, 0, 2, 0}));
  EXPECT_EQ(infer_op("STFT", {}, {{DType::FLOAT32, {"N", "128*T+256", "1"}}, scalar_i64(128), none(), scalar_i64(256)})
                .type(),
            "float32[N,T+1,129,2]");
  EXPECT_EQ(error_code_of([&] {
              run_op("STFT", {}, {signal, scalar_i64(0), none(), scalar_i64(4)});
            }),
            Code::RUN_VALUE);
}

TEST(MelWeightMatrix, TrianglesPeakAtOne) {
  // Edges at 0, 2.66 and 5.32 Hz, that is bins 0, 2 and 5.
  const Tensor out =
      run_op("MelWeightMatrix", {}, {i32({}, {1}), i32({}, {16}), i32({}, {16}), f32({}, {0}), f32({}, {8})})[0];
  expect_close(out, f32({9, 1}, {0, 0.5f, 1, 2.0f / 3, 1.0f / 3, 0, 0, 0, 0}));
  EXPECT_EQ(
      error_code_of([] {
        run_op("MelWeightMatrix", {}, {i32({}, {8}), i32({}, {16}), i32({}, {8192}), f32({}, {0}), f32({}, {80000})});
      }),
      Code::RUN_VALUE);
}

TEST(Control, KnowsArityOnly) {
  for (const char* name : {"If", "Loop", "Scan"}) {
    const OpDef& def = find_op(name);
    EXPECT_FALSE(def.infer);
    EXPECT_FALSE(def.evaluate);
    EXPECT_EQ(def.max_outputs, kMany);
  }
}

}  // namespace deepjit
