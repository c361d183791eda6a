// What a user of the runtime gets: right results at any shape, no allocation once warm, misuse detected.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "graph/parse.h"
#include "lower/lower.h"
#include "plan/arena.h"
#include "runtime/engine.h"
#include "tune/tuner.h"

namespace {
std::atomic<long> allocations{0};
}

// Counts every allocation of the process, so that a test can say that a run makes none. All forms are replaced: one
// that is left would take its memory elsewhere than where it is given back.
__attribute__((noinline)) void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((noinline)) void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  ++allocations;
  const auto unit = static_cast<std::size_t>(align);
  return std::aligned_alloc(unit, (std::max<std::size_t>(size, 1) + unit - 1) / unit * unit);
}
__attribute__((noinline)) void* operator new(std::size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(std::size_t size, std::align_val_t align) {
  if (void* p = operator new(size, align, std::nothrow)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(p);
}

namespace deepjit {

namespace {

std::shared_ptr<const Engine> engine_of(const std::string& text) {
  return std::make_shared<Engine>(lower(*parse_graph(text)), nullptr);
}

Tensor floats(const Dims& dims, std::vector<float> values) {
  return Tensor::from<float>(DType::FLOAT32, dims, std::span<const float>(values));
}

std::vector<double> run(Context& context, const std::vector<Tensor>& inputs, Dims* dims = nullptr, size_t output = 0) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<TensorView> outputs;
  context.run(views, outputs);
  if (dims != nullptr) *dims = outputs[output].dims;
  return to_f64(outputs[output]);
}

Code code_of(Context& context, const std::vector<Tensor>& inputs) {
  try {
    run(context, inputs);
    return Code::OK;
  } catch (const Error& e) {
    return e.code();
  }
}

const char* kScale = R"(graph @main(%x: float32[N,2]) -> (%y) {
  %w = constant float32[2] [2, 3]
  %a = Mul(%x, %w)
  %b = Relu(%a)
  %s = Shape(%x)
  %n = constant int64[1] [-1]
  %y = Reshape(%b, %n)
})";

}  // namespace

TEST(Runtime, ServesAnyShapeWithoutRebuild) {
  Context context(engine_of(kScale), 1);
  Dims dims;
  EXPECT_EQ(run(context, {floats({1, 2}, {1, -1})}, &dims), (std::vector<double>{2, 0}));
  EXPECT_EQ(run(context, {floats({2, 2}, {1, 1, 2, 2})}, &dims), (std::vector<double>{2, 3, 4, 6}));
  EXPECT_EQ(dims, (Dims{4}));
  EXPECT_EQ(run(context, {floats({0, 2}, {})}, &dims), (std::vector<double>{}));
  EXPECT_EQ(run(context, {floats({1, 2}, {3, 3})}, &dims), (std::vector<double>{6, 9}));
}

// Without dead_code, steps that nobody reads stay in the program: at fixed, known and open shapes.
TEST(Runtime, StepsThatNobodyReads) {
  Context context(engine_of(R"(graph @main(%x: float32[N,2]) -> (%y) {
    %s = Shape(%x)
    %k = Neg(%s)
    %a = Relu(%x)
    %p = NonZero(%x)
    %d = Neg(%p)
    %y = Neg(%x)
  })"),
                  1);
  EXPECT_EQ(run(context, {floats({1, 2}, {1, -1})}), (std::vector<double>{-1, 1}));
  EXPECT_EQ(run(context, {floats({2, 2}, {1, -1, 2, 0})}), (std::vector<double>{-1, 1, -2, 0}));
}

TEST(Runtime, AllocatesNothingAfterTheFirstRun) {
  Context context(engine_of(kScale), 1);
  const Tensor x = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const TensorView view = x.view();
  std::vector<TensorView> outputs;
  context.run(std::span(&view, 1), outputs);
  const long before = allocations;
  const size_t bytes = context.memory_bytes();
  for (int i = 0; i < 10; ++i) context.run(std::span(&view, 1), outputs);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(context.memory_bytes(), bytes);
}

// oneDNN's execute makes a few short-lived allocations of its own; what a run takes, it gives back.
TEST(Runtime, LibraryStepsLeaveTheHeapAsItWas) {
  Program program = lower(*parse_graph(R"(graph @main(%x: float32[1,16,16,16]) -> (%y) {
    %w = constant float32[16,16,3,3] random(1)
    %a = deepjit.Conv(%x, %w) {layout="NHWC", kernel_shape=[3,3], pads=[1,1,1,1], epilogue=["Relu"]}
    %y = Exp(%a)
  })"));
  TuneTask task{0,
                {{DType::FLOAT32, {1, 16, 16, 16}}, {DType::FLOAT32, {16, 16, 3, 3}}},
                {{DType::FLOAT32, {1, 16, 16, 16}}},
                {}};
  task.constants = {Tensor(), program.buffers[static_cast<size_t>(program.steps[0].inputs[1])].constant};
  TuneOptions options;
  options.force_tactic = "onednn";
  tune(program, {task}, options);
  ASSERT_EQ(program.steps[0].tactic.provider, "onednn");
  Context context(std::make_shared<Engine>(std::move(program), nullptr), 1);
  const Tensor x = floats({1, 16, 16, 16}, std::vector<float>(4096, 0.5f));
  const TensorView view = x.view();
  std::vector<TensorView> outputs;
  for (int i = 0; i < 10; ++i) context.run(std::span(&view, 1), outputs);
  const size_t used = mallinfo2().uordblks;
  const size_t bytes = context.memory_bytes();
  for (int i = 0; i < 200; ++i) context.run(std::span(&view, 1), outputs);
  EXPECT_EQ(mallinfo2().uordblks, used);
  EXPECT_EQ(context.memory_bytes(), bytes);
}

TEST(Runtime, ReusesMemoryAndWorksInPlace) {
  Context context(engine_of(R"(graph @main(%x: float32[1000]) -> (%y) {
    %a = Exp(%x)
    %b = Neg(%a)
    %c = Abs(%b)
    %d = Sqrt(%c)
    %y = ReduceSum(%d) {keepdims=1}
  })"),
                  1);
  run(context, {floats({1000}, std::vector<float>(1000, 0.0f))});
  EXPECT_EQ(context.last_binding()->arena_bytes, 4032u);  // one buffer of 4000 bytes, rounded to 64
  EXPECT_EQ(context.last_binding()->arena_lower_bound, 4032u);
}

TEST(Runtime, TakesTheBranchThatTheDataAsksFor) {
  Context context(engine_of(R"(graph @main(%x: float32[2], %c: bool[]) -> (%y) {
    %y = If(%c) then { %t = Neg(%x) -> (%t) } else { -> (%x) }
  })"),
                  1);
  const bool yes = true;
  const bool no = false;
  const Tensor t = Tensor::from<bool>(DType::BOOL, {}, std::span(&yes, 1));
  const Tensor f = Tensor::from<bool>(DType::BOOL, {}, std::span(&no, 1));
  EXPECT_EQ(run(context, {floats({2}, {1, 2}), t}), (std::vector<double>{-1, -2}));
  EXPECT_EQ(run(context, {floats({2}, {1, 2}), f}), (std::vector<double>{1, 2}));
}

TEST(Runtime, ShapesThatDependOnDataWork) {
  Context context(engine_of(R"(graph @main(%x: float32[N]) -> (%i, %d) {
    %i = NonZero(%x)
    %f = Cast(%i) {to=1}
    %d = Add(%f, %f)
  })"),
                  1);
  Dims dims;
  EXPECT_EQ(run(context, {floats({4}, {0, 5, 0, 7})}, &dims), (std::vector<double>{1, 3}));
  EXPECT_EQ(dims, (Dims{1, 2}));
  EXPECT_EQ(run(context, {floats({4}, {0, 5, 0, 7})}, &dims, 1), (std::vector<double>{2, 6}));
  EXPECT_EQ(run(context, {floats({4}, {0, 0, 0, 0})}, &dims, 1), (std::vector<double>{}));
}

TEST(Runtime, ChecksInputs) {
  Context context(engine_of(kScale), 1);
  EXPECT_EQ(code_of(context, {Tensor()}), Code::INPUT_NAME);
  EXPECT_EQ(code_of(context, {floats({2}, {1, 2})}), Code::INPUT_SHAPE);
  EXPECT_EQ(code_of(context, {floats({1, 3}, {1, 2, 3})}), Code::INPUT_SHAPE);
  EXPECT_EQ(code_of(context, {Tensor::vector_i64(std::vector<int64_t>{1})}), Code::INPUT_DTYPE);
  EXPECT_EQ(code_of(context, {floats({1, 2}, {1, 2})}), Code::OK);
}

TEST(Runtime, KeepsToItsShapeRange) {
  Program program = lower(*parse_graph(kScale));
  program.inputs[0].has_range = true;
  program.inputs[0].range = {Dims{1, 2}, Dims{2, 2}, Dims{4, 2}};
  Context context(std::make_shared<Engine>(std::move(program), nullptr), 1);
  EXPECT_EQ(code_of(context, {floats({4, 2}, std::vector<float>(8, 1))}), Code::OK);
  EXPECT_EQ(code_of(context, {floats({5, 2}, std::vector<float>(10, 1))}), Code::OUT_OF_RANGE);
  EXPECT_EQ(code_of(context, {floats({0, 2}, {})}), Code::OUT_OF_RANGE);
}

TEST(Runtime, DetectsTwoThreadsInOneContext) {
  Context context(engine_of(R"(graph @main(%x: float32[N]) -> (%y) {
    %a = Exp(%x)
    %b = Tanh(%a)
    %y = ReduceSum(%b) {keepdims=1}
  })"),
                  1);
  const Tensor x = floats({4000000}, std::vector<float>(4000000, 0.1f));
  std::atomic<bool> detected{false};
  auto work = [&] {
    for (int i = 0; i < 200 && !detected; ++i) {
      if (code_of(context, {x}) == Code::CONCURRENT_USE) detected = true;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_TRUE(detected);
  EXPECT_EQ(code_of(context, {x}), Code::OK);
}

TEST(Arena, NeverOverlapsWhatLivesTogether) {
  std::vector<Lifetime> lifetimes;
  uint32_t seed = 1;
  auto next = [&](uint32_t n) { return (seed = seed * 1664525u + 1013904223u) / 65536u % n; };
  for (int i = 0; i < 200; ++i) {
    const int first = static_cast<int>(next(100));
    lifetimes.push_back({next(5000) + 1, first, first + static_cast<int>(next(20))});
  }
  const ArenaLayout layout = plan_arena(lifetimes);
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(layout.offsets[a] % 64, 0u);
    EXPECT_LE(layout.offsets[a] + lifetimes[a].bytes, layout.bytes);
    for (size_t b = 0; b < a; ++b) {
      if (lifetimes[a].last < lifetimes[b].first || lifetimes[b].last < lifetimes[a].first) continue;
      EXPECT_TRUE(layout.offsets[a] + lifetimes[a].bytes <= layout.offsets[b] ||
                  layout.offsets[b] + lifetimes[b].bytes <= layout.offsets[a]);
    }
  }
  EXPECT_GE(layout.bytes, layout.lower_bound);
  EXPECT_LE(layout.bytes, layout.lower_bound * 3 / 2);
}

}  // namespace deepjit
