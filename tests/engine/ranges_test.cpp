// Several shape ranges in one engine: which a run takes, what they share, and what the reader refuses.
#include "program/ranges.h"

#include <gtest/gtest.h>

#include "compiler/shapes.h"
#include "engine/format.h"
#include "graph/parse.h"
#include "lower/lower.h"
#include "runtime/engine.h"
#include "runtime/memory_use.h"

namespace deepjit {

namespace {

using Bounds = std::array<int64_t, 3>;  // of the first dim: min, opt, max

ShapeRange range_of(const Bounds& n) { return {Dims{n[0], 4}, Dims{n[1], 4}, Dims{n[2], 4}}; }

// A product and a sum of x[N,4] and w, with the ranges of N.
Program with_ranges(const std::vector<Bounds>& bounds) {
  Program program = lower(*parse_graph(R"(graph @main(%x: float32[N,4]) -> (%y) {
    %w = constant float32[4] [1, 2, 3, 4]
    %a = Mul(%x, %w)
    %y = Relu(%a)
  })"));
  std::vector<RangeSet> sets;
  for (const Bounds& n : bounds) sets.push_back({{"x", range_of(n)}});
  set_ranges(program, sets);
  return program;
}

Tensor filled(int64_t n) {
  Tensor x(DType::FLOAT32, {n, 4});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i % 7) - 3;
  return x;
}

// Which program runs n rows: its index, or -1.
int64_t taken(const Program& program, int64_t n) {
  const Dims dims{n, 4};
  const Program* one = program_at(program, {&dims});
  const std::vector<const Program*> all = programs_of(program);
  return one == nullptr ? -1 : std::find(all.begin(), all.end(), one) - all.begin();
}

template <typename F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const Error& e) {
    return std::string(code_name(e.code())) + ": " + e.message();
  }
  return "";
}

}  // namespace

TEST(Ranges, TheNearestOptOfThoseThatHoldTheShapesIsTaken) {
  const Program apart = with_ranges({{1, 1, 1}, {2, 16, 32}});
  EXPECT_EQ(taken(apart, 1), 0);
  EXPECT_EQ(taken(apart, 2), 1);
  EXPECT_EQ(taken(apart, 32), 1);
  EXPECT_EQ(taken(apart, 33), -1);
  EXPECT_EQ(taken(apart, 0), -1);
  const Program over = with_ranges({{1, 4, 64}, {1, 16, 64}, {1, 16, 32}, {0, 0, 64}});
  EXPECT_EQ(taken(over, 1), 3);  // an empty dim counts as a half
  EXPECT_EQ(taken(over, 4), 0);
  EXPECT_EQ(taken(over, 7), 0);
  EXPECT_EQ(taken(over, 8), 0);  // as far from 4 as from 16: the first
  EXPECT_EQ(taken(over, 9), 1);  // the second and the third are as near
  EXPECT_EQ(taken(over, 64), 1);
  EXPECT_EQ(taken(over, 65), -1);
}

TEST(Ranges, ARunTakesTheProgramOfItsRange) {
  const auto engine = std::make_shared<const Engine>(with_ranges({{1, 1, 2}, {3, 8, 16}}), nullptr);
  Context context(engine, 1);
  for (const int64_t n : {1, 3, 2, 16, 5, 1, 3}) {
    const Tensor x = filled(n);
    std::vector<TensorView> outputs;
    context.run(std::vector<TensorView>{x.view()}, outputs);
    ASSERT_EQ(outputs[0].dims, (Dims{n, 4}));
    for (int64_t i = 0; i < x.count(); ++i) {
      EXPECT_EQ(outputs[0].as<float>()[i], std::max(0.0f, x.as<float>()[i] * static_cast<float>(i % 4 + 1)));
    }
    const Program& own = *programs_of(engine->program())[n < 3 ? 0 : 1];
    const Step* step = context.last_binding()->steps.front().step;
    EXPECT_TRUE(step >= own.steps.data() && step < own.steps.data() + own.steps.size()) << n;
    EXPECT_EQ(&engine->program_for(std::vector<TensorView>{x.view()}), &own);
  }
}

TEST(Ranges, AShapeOutsideNamesAllRanges) {
  const auto engine = std::make_shared<const Engine>(with_ranges({{1, 1, 1}, {4, 8, 16}}), nullptr);
  Context context(engine, 1);
  std::vector<TensorView> outputs;
  const auto run = [&](int64_t n) {
    const Tensor x = filled(n);
    context.run(std::vector<TensorView>{x.view()}, outputs);
  };
  run(16);
  EXPECT_EQ(error_of([&] { run(2); }),
            "OUT_OF_RANGE: input \"x\": shape [2,4] is outside the engine's range: x [1,4] to [1,4]; or x [4,4] to "
            "[16,4]");
  run(1);  // the context is good for use
}

TEST(Ranges, InputsMustLieInOneRangeTogether) {
  Program program = lower(*parse_graph(R"(graph @main(%a: float32[N], %b: float32[M]) -> (%y) {
    %y = Concat(%a, %b) {axis=0}
  })"));
  const auto bounds = [](int64_t n) { return ShapeRange{Dims{n}, Dims{n}, Dims{n}}; };
  set_ranges(program, {{{"a", bounds(1)}, {"b", bounds(1)}}, {{"a", bounds(2)}, {"b", bounds(2)}}});
  Context context(std::make_shared<const Engine>(std::move(program), nullptr), 1);
  std::vector<TensorView> outputs;
  const auto run = [&](int64_t n, int64_t m) {
    const Tensor a(DType::FLOAT32, {n}), b(DType::FLOAT32, {m});
    context.run(std::vector<TensorView>{a.view(), b.view()}, outputs);
    return outputs[0].dims;
  };
  EXPECT_EQ(run(2, 2), Dims{4});
  EXPECT_EQ(error_of([&] { run(1, 2); }),
            "OUT_OF_RANGE: inputs a [1], b [2]: no range of the engine has them together: a [1] to [1], b [1] to [1]; "
            "or a [2] to [2], b [2] to [2]");
}

TEST(Ranges, TheFileHoldsConstantsOnceAndAllRanges) {
  EngineFile one, three;
  one.program = with_ranges({{1, 1, 1}});
  three.program = with_ranges({{1, 1, 1}, {2, 2, 4}, {5, 8, 8}});
  const std::vector<uint8_t> bytes = write_engine(three);
  const auto weights = [](std::span<const uint8_t> file) { return open_sections(file).at(Section::WEIGHTS).size(); };
  EXPECT_EQ(weights(bytes), weights(write_engine(one)));
  const LoadedFile loaded = read_engine(bytes, nullptr);
  ASSERT_EQ(loaded.file.program.others.size(), 2u);
  EXPECT_EQ(range_text(loaded.file.program.others[1]), "x [5,4] to [8,4]");
  EXPECT_EQ(constant_bytes(loaded.file.program), constant_bytes(one.program));
  EXPECT_EQ(taken(loaded.file.program, 3), 1);
  EXPECT_EQ(write_engine(loaded.file), bytes);
}

TEST(Ranges, EqualDataLiesInMemoryOnce) {
  Program program = with_ranges({{1, 1, 1}, {2, 2, 4}, {5, 8, 8}});
  const size_t plain = constant_bytes(program);
  const auto pack = [](Program& p, uint8_t value) {
    Tensor data(DType::UINT8, {1000});
    std::fill_n(data.as<uint8_t>(), 1000, value);
    p.steps[0].tactic.packed = {{-1, "code", data}};
  };
  pack(program, 1);
  pack(program.others[0], 1);
  pack(program.others[1], 2);
  const auto copy = [](Tensor& t) {
    const Tensor own(t.dtype(), t.dims());
    std::memcpy(own.view().data, t.view().data, static_cast<size_t>(t.bytes()));
    t = own;
  };
  for (Buffer& buffer : program.others[1].buffers) {
    if (buffer.constant.defined()) copy(buffer.constant);
  }
  EXPECT_EQ(constant_bytes(program), 2 * plain + 3000);
  share_equal_data(program);
  EXPECT_EQ(constant_bytes(program), plain + 2000);
  EXPECT_EQ(program.others[1].steps[0].tactic.packed[0].data.as<uint8_t>()[999], 2);
}

TEST(Ranges, TheReaderRefusesProgramsThatAreNotAlike) {
  const auto code_of = [](auto&& damage) {
    EngineFile file;
    file.program = with_ranges({{1, 1, 1}, {2, 2, 4}});
    damage(file.program.others[0]);
    return error_of([&] { read_engine(write_engine(file), nullptr); }).substr(0, 12);
  };
  EXPECT_EQ(code_of([](Program&) {}), "");
  EXPECT_EQ(code_of([](Program& p) { p.inputs[0].name = "z"; }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) { p.outputs[0].name = "z"; }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) { p.threads = 3; }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) { p.metadata["build.device"] = "cuda"; }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) { p.inputs[0].default_value = Tensor(DType::FLOAT32, {1, 4}); }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) {
              p.buffers[static_cast<size_t>(p.inputs[0].buffer)].type.shape = Shape({Dim(7), Dim(4)});
            }),
            "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) { p.inputs[0].range.max = Dims{1, 2, 3}; }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) { p.steps[0].inputs[0] = 99; }), "ENGINE_RANGE");
  EXPECT_EQ(code_of([](Program& p) {
              p.inputs.clear();
              p.blocks[0].inputs.clear();
            }),
            "ENGINE_RANGE");
}

// A count that the file does not have the bytes for, and bytes behind the last program.
TEST(Ranges, TheReaderRefusesAWrongNumberOfPrograms) {
  EngineFile file;
  file.program = with_ranges({{1, 1, 1}});
  const std::vector<uint8_t> whole = write_engine(file);
  const auto sections = open_sections(whole);
  const auto code_with = [&](uint32_t count) {
    std::vector<std::pair<Section, std::vector<uint8_t>>> changed;
    for (const auto& [kind, bytes] : sections)
      changed.emplace_back(kind, std::vector<uint8_t>(bytes.begin(), bytes.end()));
    for (auto& [kind, bytes] : changed) {
      if (kind == Section::PROGRAM) std::memcpy(bytes.data() + bytes.size() - sizeof count, &count, sizeof count);
    }
    return error_of([&] { read_engine(seal_sections(changed), nullptr); }).substr(0, 12);
  };
  EXPECT_EQ(code_with(0), "");
  EXPECT_EQ(code_with(1), "ENGINE_RANGE");
  EXPECT_EQ(code_with(0xffffffff), "ENGINE_RANGE");
}

TEST(Ranges, TheLargestShapesAreThoseOfTheLargestRange) {
  const Program program = with_ranges({{1, 1, 1}, {2, 16, 32}, {3, 3, 8}});
  EXPECT_EQ(&largest_at(program, {nullptr}), &program.others[0]);
  const Dims five{5, 4}, one{1, 4}, none{99, 4};
  EXPECT_EQ(programs_at(program, {&five}), (std::vector<const Program*>{&program.others[0], &program.others[1]}));
  EXPECT_EQ(programs_at(program, {&one}), std::vector<const Program*>{&program});
  EXPECT_EQ(programs_at(program, {&none}).size(), 3u);
  const Engine engine(program, nullptr);
  EXPECT_EQ(most_memory_needs(engine, {}, 1).outputs, 32u * 4 * 4);
  EXPECT_EQ(most_memory_needs(engine, {{"x", five}}, 1).outputs, 5u * 4 * 4);
  EXPECT_EQ(error_of([&] { most_memory_needs(engine, {{"x", none}}, 1); }).substr(0, 12), "OUT_OF_RANGE");
}

TEST(Ranges, TheKthOfAllInputsBelongTogether) {
  const ShapeRange one = range_of({1, 1, 1}), two = range_of({2, 2, 2}), three = range_of({3, 3, 3});
  const auto sets = range_sets({{"x", one}, {"m", three}}, {{"x", {two, three}}});
  ASSERT_EQ(sets.size(), 3u);
  EXPECT_EQ(sets[1].at("x").opt, (Dims{2, 4}));
  EXPECT_EQ(sets[2].at("x").opt, (Dims{3, 4}));
  for (const RangeSet& set : sets) EXPECT_EQ(set.at("m").opt, (Dims{3, 4}));
  EXPECT_EQ(range_sets({}, {}).size(), 1u);
  EXPECT_EQ(error_of([&] {
              range_sets({{"x", one}, {"m", one}}, {{"x", {two, three}}, {"m", {two}}});
            }),
            "ARGUMENT: input \"m\" has 2 ranges, \"x\" has 3");
  EXPECT_EQ(error_of([&] { range_sets({}, {{"x", {two}}}); }), "ARGUMENT: input \"x\" has no first range");
}

// A dim that all ranges fix is a constant, one that some of them fix is not.
TEST(Ranges, DimsThatAllRangesFixAreConstants) {
  const auto type_with = [](const std::vector<RangeSet>& sets) {
    const auto graph = parse_graph("graph @main(%x: float32[N,M]) -> (%y) {\n %y = Relu(%x)\n}");
    apply_ranges(*graph, sets);
    return graph->inputs[0]->type.to_string();
  };
  EXPECT_EQ(type_with({{{"x", range_of({1, 1, 1})}}}), "float32[1,4]");
  EXPECT_EQ(type_with({{{"x", range_of({1, 1, 1})}}, {{"x", range_of({2, 2, 2})}}}), "float32[N,4]");
  EXPECT_EQ(error_of([&] {
              type_with({{{"x", range_of({1, 1, 1})}}, {{"x", ShapeRange{Dims{1}, Dims{1}, Dims{1}}}}});
            }).substr(0, 8),
            "ARGUMENT");
}

}  // namespace deepjit
