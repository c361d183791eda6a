// Strings, sequences and optionals through the whole line: text, types, program, engine file, binding, runs.
#include <gtest/gtest.h>

#include "engine/format.h"
#include "graph/equal.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "lower/lower.h"
#include "ops/sequence/sequence.h"
#include "passes/pipeline.h"
#include "runtime/engine.h"

namespace deepjit {

namespace {

Tensor floats(const Dims& dims, const std::vector<float>& values) {
  return Tensor::from<float>(DType::FLOAT32, dims, std::span<const float>(values));
}
Tensor strings(const Dims& dims, const std::vector<std::string>& values) {
  return Tensor::from<std::string>(DType::STRING, dims, std::span<const std::string>(values));
}
Tensor number(int64_t value) { return Tensor::vector_i64(std::vector{value}).reshaped({}); }
Tensor truth(bool value) {
  Tensor t(DType::BOOL, {});
  *t.as<uint8_t>() = value ? 1 : 0;
  return t;
}
Tensor collection(DType dtype, const std::vector<Tensor>& elements) {
  return Tensor::from<Tensor>(dtype, {static_cast<int64_t>(elements.size())}, std::span<const Tensor>(elements));
}
Tensor sequence(const std::vector<Tensor>& elements) { return collection(DType::SEQUENCE, elements); }
Tensor optional(const std::vector<Tensor>& elements) { return collection(DType::OPTIONAL, elements); }

std::vector<std::string> texts(const Tensor& t) { return {t.as<std::string>(), t.as<std::string>() + t.count()}; }

std::shared_ptr<const Engine> engine_of(const std::string& text, int level = 0) {
  const std::unique_ptr<Graph> graph = parse_graph(text);
  verify(*graph);
  PassOptions options;
  options.level = level;
  run_pipeline(*graph, options);
  verify(*graph);
  return std::make_shared<Engine>(lower(*graph), nullptr);
}

std::vector<Tensor> run(Context& context, const std::vector<Tensor>& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<TensorView> outputs;
  context.run(views, outputs);
  std::vector<Tensor> copies;
  for (const TensorView& view : outputs) copies.push_back(owned_copy(view));
  return copies;
}

// The same with every level of passes, and from an engine file; all must agree.
std::vector<Tensor> run_everywhere(const std::string& text, const std::vector<Tensor>& inputs) {
  const auto plain = engine_of(text);
  Context context(plain);
  const std::vector<Tensor> expected = run(context, inputs);
  for (int level = 1; level <= 3; ++level) {
    Context other(engine_of(text, level));
    const std::vector<Tensor> got = run(other, inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(got[i].same_as(expected[i])) << "level " << level;
  }
  const std::vector<uint8_t> bytes = write_engine({plain->program(), "", ""});
  const auto kept = std::make_shared<std::vector<uint8_t>>(bytes);
  LoadedFile loaded = read_engine(*kept, kept);
  for (size_t i = 0; i < plain->program().buffers.size(); ++i) {
    EXPECT_EQ(loaded.file.program.buffers[i].type, plain->program().buffers[i].type);
  }
  Context from_file(std::make_shared<Engine>(std::move(loaded.file.program), loaded.backing));
  for (int times = 0; times < 2; ++times) {
    const std::vector<Tensor> got = run(from_file, inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(got[i].same_as(expected[i])) << "from a file";
  }
  return expected;
}

Error error_of(Context& context, const std::vector<Tensor>& inputs) {
  try {
    run(context, inputs);
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::OK, "no error");
}

Error build_error(const std::string& text) {
  try {
    engine_of(text);
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::OK, "no error");
}

TEST(Strings, AreComputedBySteps) {
  const char* text = R"(graph @main(%x: string[N,2], %i: int64[K]) -> (%y, %same, %count) {
  %tail = constant string[2] ["!", "?"]
  %shape = constant int64[1] [-1]
  %said = StringConcat(%x, %tail)
  %flat = Reshape(%said, %shape)
  %y = Gather(%flat, %i)
  %same = Equal(%said, %x)
  %count = Size(%said)
})";
  const std::vector<Tensor> out =
      run_everywhere(text, {strings({2, 2}, {"a", "b", "", "a long string that no small buffer holds"}),
                            Tensor::vector_i64(std::vector<int64_t>{3, 0, -2})});
  EXPECT_EQ(texts(out[0]), (std::vector<std::string>{"a long string that no small buffer holds?", "a!", "!"}));
  EXPECT_EQ(out[1].to_i64(), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(out[2].to_i64(), std::vector<int64_t>{4});
}

TEST(Strings, NumbersFromTextGoOn) {
  const char* text = R"(graph @main(%x: string[N]) -> (%y) {
  %n = Cast(%x) {to=1}
  %two = Add(%n, %n)
  %y = Cast(%two) {to=8}
})";
  EXPECT_EQ(texts(run_everywhere(text, {strings({3}, {"1.5", " 20 ", "-0.25"})})[0]),
            (std::vector<std::string>{"3.0", "40.0", "-0.5"}));
  Context context(engine_of(text));
  const Error e = error_of(context, {strings({1}, {"twelve"})});
  EXPECT_EQ(e.code(), Code::RUN_VALUE);
  EXPECT_NE(e.message().find("node \"Cast\""), std::string::npos) << e.message();
  EXPECT_EQ(texts(run(context, {strings({1}, {"4"})})[0]), std::vector<std::string>{"8.0"});
}

TEST(Strings, PassThroughControlFlow) {
  const char* text = R"(graph @main(%n: int64[], %x: string[K], %c: bool[]) -> (%all, %steps, %picked, %x) {
  %tail = constant string[1] ["."]
  %go = constant bool[] [true]
  %all, %steps = Loop(%n, %go, %x) body(%i: int64[], %keep: bool[], %s: string[K]) {
    %longer = StringConcat(%s, %tail)
    -> (%keep, %longer, %s)
  }
  %picked = If(%c) then {
    %yes = StringConcat(%tail, %x)
    -> (%yes)
  } else {
    %no = Identity(%x)
    -> (%no)
  }
})";
  const Tensor x = strings({2}, {"a", "b"});
  for (const bool c : {true, false}) {
    const std::vector<Tensor> out = run_everywhere(text, {number(3), x, truth(c)});
    EXPECT_EQ(texts(out[0]), (std::vector<std::string>{"a...", "b..."}));
    EXPECT_EQ(out[1].dims(), (Dims{3, 2}));
    EXPECT_EQ(texts(out[1]), (std::vector<std::string>{"a", "b", "a.", "b.", "a..", "b.."}));
    EXPECT_EQ(texts(out[2]), (c ? std::vector<std::string>{".a", ".b"} : std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(out[3].same_as(x));
  }
  const std::vector<Tensor> none = run_everywhere(text, {number(0), x, truth(true)});
  EXPECT_EQ(texts(none[0]), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(none[1].dims()[0], 0);
}

TEST(Strings, AreScanned) {
  const char* text = R"(graph @main(%x: string[R,C]) -> (%last, %columns) {
  %start = constant string[] [""]
  %none = constant int64[1] [0]
  %last, %columns = Scan(%start, %x) {num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1]} body(%s: string[], %column: string[R]) {
    %first = Gather(%column, %none)
    %scalar = Squeeze(%first)
    %longer = StringConcat(%s, %scalar)
    %marked = StringConcat(%column, %longer)
    -> (%longer, %marked)
  }
})";
  const std::vector<Tensor> out = run_everywhere(text, {strings({2, 3}, {"a", "b", "c", "d", "e", "f"})});
  EXPECT_EQ(texts(out[0]), std::vector<std::string>{"abc"});
  EXPECT_EQ(texts(out[1]), (std::vector<std::string>{"aa", "bab", "cabc", "da", "eab", "fabc"}));
}

const char* kEdit = R"(graph @main(%a: float32[N], %b: float32[M,2], %at: int64[]) -> (%s, %one, %n, %rest) {
  %empty = SequenceEmpty()
  %s1 = SequenceInsert(%empty, %a)
  %s2 = SequenceInsert(%s1, %b, %at)
  %s = SequenceInsert(%s2, %a)
  %one = SequenceAt(%s, %at)
  %n = SequenceLength(%s)
  %rest = SequenceErase(%s, %at)
})";

TEST(Sequences, AreEdited) {
  const Tensor a = floats({3}, {1, 2, 3});
  const Tensor b = floats({1, 2}, {4, 5});
  const std::vector<Tensor> front = run_everywhere(kEdit, {a, b, number(0)});
  EXPECT_TRUE(front[0].same_as(sequence({b, a, a})));
  EXPECT_TRUE(front[1].same_as(b));
  EXPECT_EQ(front[2].to_i64(), std::vector<int64_t>{3});
  EXPECT_TRUE(front[3].same_as(sequence({a, a})));
  const std::vector<Tensor> back = run_everywhere(kEdit, {a, b, number(-1)});
  EXPECT_TRUE(back[0].same_as(sequence({b, a, a})));
  EXPECT_TRUE(back[1].same_as(a));
  EXPECT_TRUE(back[3].same_as(sequence({b, a})));
}

TEST(Sequences, PositionsOutOfRangeAreErrors) {
  Context context(engine_of(kEdit));
  const Tensor a = floats({1}, {1});
  const Tensor b = floats({0, 2}, {});
  for (const int64_t at : {2, -2, INT32_MAX}) {
    const Error e = error_of(context, {a, b, number(at)});
    EXPECT_EQ(e.code(), Code::INDEX_RANGE) << at;
    EXPECT_NE(e.message().find("node \"SequenceInsert\""), std::string::npos) << e.message();
  }
  EXPECT_TRUE(run(context, {a, b, number(1)})[0].same_as(sequence({a, b, a})));

  const char* erase = "graph @main(%s: sequence[n](int64[K])) -> (%r) {\n  %r = SequenceErase(%s)\n}";
  Context eraser(engine_of(erase));
  EXPECT_EQ(error_of(eraser, {sequence({})}).code(), Code::INDEX_RANGE);
  EXPECT_EQ(run(eraser, {sequence({number(1).reshaped({1})})})[0].count(), 0);
}

TEST(Sequences, SplitAndJoin) {
  const char* text = R"(graph @main(%x: float32[N,3], %sizes: int64[K]) -> (%s, %back, %stack, %rows) {
  %s = SplitToSequence(%x, %sizes) {axis=0}
  %back = ConcatFromSequence(%s) {axis=0}
  %rows = SplitToSequence(%x) {axis=1, keepdims=0}
  %stack = ConcatFromSequence(%rows) {axis=-1, new_axis=1}
})";
  const Tensor x = floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::vector<Tensor> out = run_everywhere(text, {x, Tensor::vector_i64(std::vector<int64_t>{1, 0, 2})});
  ASSERT_EQ(out[0].count(), 3);
  EXPECT_TRUE(out[0].as<Tensor>()[1].same_as(floats({0, 3}, {})));
  EXPECT_TRUE(out[0].as<Tensor>()[2].same_as(floats({2, 3}, {4, 5, 6, 7, 8, 9})));
  EXPECT_TRUE(out[1].same_as(x));
  EXPECT_TRUE(out[2].same_as(x));
  EXPECT_TRUE(out[3].as<Tensor>()[1].same_as(floats({3}, {2, 5, 8})));
  Context context(engine_of(text));
  EXPECT_EQ(error_of(context, {x, Tensor::vector_i64(std::vector<int64_t>{1, 1})}).code(), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_of(context, {x, Tensor::vector_i64(std::vector<int64_t>{4, -1})}).code(), Code::RUN_VALUE);
}

TEST(Sequences, ElementsOfAnyRankAndEmptyOnes) {
  const char* text = R"(graph @main(%s: sequence[n](float32[*]), %at: int64[]) -> (%x, %y, %s) {
  %x = SequenceAt(%s, %at)
  %two = constant float32[] [2]
  %y = Mul(%x, %two)
})";
  const Tensor s =
      sequence({floats({}, {3}), floats({0}, {}), floats(Dims::filled(16, 1), {7}), floats({2, 1}, {1, 2})});
  for (int64_t at = 0; at < 4; ++at) {
    const std::vector<Tensor> out = run_everywhere(text, {s, number(at)});
    EXPECT_TRUE(out[0].same_as(s.as<Tensor>()[at]));
    EXPECT_EQ(out[1].dims(), s.as<Tensor>()[at].dims());
    EXPECT_TRUE(out[2].same_as(s));
  }
}

TEST(Sequences, GrowInLoopsAndAreReadInBodies) {
  const char* text = R"(graph @main(%n: int64[], %given: sequence[k](float32[2])) -> (%s, %sum) {
  %go = constant bool[] [true]
  %zero = constant float32[2] [0, 0]
  %empty = SequenceEmpty()
  %s, %sum = Loop(%n, %go, %empty, %zero) body(%i: int64[], %keep: bool[], %t: sequence[m](float32[*]), %acc: float32[2]) {
    %x = SequenceAt(%given, %i)
    %next = Add(%acc, %x)
    %more = SequenceInsert(%t, %next)
    -> (%keep, %more, %next)
  }
})";
  const Tensor given = sequence({floats({2}, {1, 2}), floats({2}, {3, 4}), floats({2}, {5, 6})});
  const std::vector<Tensor> out = run_everywhere(text, {number(3), given});
  EXPECT_TRUE(out[0].same_as(sequence({floats({2}, {1, 2}), floats({2}, {4, 6}), floats({2}, {9, 12})})));
  EXPECT_TRUE(out[1].same_as(floats({2}, {9, 12})));
  EXPECT_EQ(run_everywhere(text, {number(0), given})[0].count(), 0);
  Context context(engine_of(text));
  EXPECT_EQ(error_of(context, {number(4), given}).code(), Code::INDEX_RANGE);
}

TEST(Optionals, HasAndGet) {
  const char* text =
      R"(graph @main(%o: optional[n](sequence[k](int64[*])), %other: int64[2]) -> (%has, %s, %o, %always) {
  %has = OptionalHasElement(%o)
  %always = OptionalHasElement(%other)
  %s = If(%has) then {
    %held = OptionalGetElement(%o)
    -> (%held)
  } else {
    %made = SequenceConstruct(%other, %other)
    -> (%made)
  }
})";
  const Tensor other = Tensor::vector_i64(std::vector<int64_t>{8, 9});
  const Tensor held = sequence({number(4)});
  const std::vector<Tensor> full = run_everywhere(text, {optional({held}), other});
  EXPECT_EQ(full[0].to_i64(), std::vector<int64_t>{1});
  EXPECT_TRUE(full[1].same_as(held));
  EXPECT_TRUE(full[2].same_as(optional({held})));
  EXPECT_EQ(full[3].to_i64(), std::vector<int64_t>{1});
  const std::vector<Tensor> empty = run_everywhere(text, {optional({}), other});
  EXPECT_EQ(empty[0].to_i64(), std::vector<int64_t>{0});
  EXPECT_TRUE(empty[1].same_as(sequence({other, other})));
  EXPECT_EQ(empty[2].count(), 0);

  Context context(engine_of("graph @main(%o: optional[n](int64[2])) -> (%x) {\n  %x = OptionalGetElement(%o)\n}"));
  EXPECT_EQ(error_of(context, {optional({})}).code(), Code::RUN_VALUE);
  EXPECT_TRUE(run(context, {optional({other})})[0].same_as(other));
}

TEST(Optionals, AreMade) {
  const char* text = R"(graph @main(%x: float32[N]) -> (%full, %empty) {
  %full = Optional(%x)
  %empty = Optional() {element=[100,1]}
})";
  const std::vector<Tensor> out = run_everywhere(text, {floats({2}, {1, 2})});
  EXPECT_TRUE(out[0].same_as(optional({floats({2}, {1, 2})})));
  EXPECT_EQ(out[1].dims(), Dims{0});
  EXPECT_EQ(parse_graph(text)->outputs[1]->type.to_string().substr(0, 12), "optional[0](");
}

TEST(Collections, ElementsAreChecked) {
  Context context(engine_of("graph @main(%s: sequence[n](float32[2,K])) -> (%t) {\n  %t = Identity(%s)\n}"));
  EXPECT_EQ(error_of(context, {sequence({floats({2, 1}, {1, 2}), number(3)})}).code(), Code::INPUT_DTYPE);
  EXPECT_EQ(error_of(context, {sequence({floats({2}, {1, 2})})}).code(), Code::INPUT_SHAPE);
  EXPECT_EQ(error_of(context, {sequence({floats({3, 1}, {1, 2, 3})})}).code(), Code::INPUT_SHAPE);
  EXPECT_EQ(error_of(context, {sequence({Tensor()})}).code(), Code::INPUT_DTYPE);
  EXPECT_EQ(error_of(context, {floats({2, 1}, {1, 2})}).code(), Code::INPUT_DTYPE);
  const Tensor good = sequence({floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({2, 0}, {})});
  EXPECT_TRUE(run(context, {good})[0].same_as(good));
  // The binding is there already; the elements are looked at all the same.
  const Error e = error_of(context, {sequence({floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({1, 1}, {1})})});
  EXPECT_EQ(e.code(), Code::INPUT_SHAPE);
  EXPECT_NE(e.message().find("element 1"), std::string::npos) << e.message();
  Context optional_context(engine_of("graph @main(%o: optional[n](int64[])) -> (%p) {\n  %p = Identity(%o)\n}"));
  EXPECT_EQ(error_of(optional_context, {optional({number(1), number(2)})}).code(), Code::INPUT_SHAPE);
}

TEST(Collections, WrongTypesNameTheNode) {
  const auto expect_type_error = [](const std::string& body, const std::string& part) {
    const Error e =
        build_error("graph @main(%s: sequence[n](float32[2]), %i: int64[2], %c: bool[]) -> (%y) {\n" + body + "\n}");
    EXPECT_EQ(e.code(), Code::TYPE) << body << "\n" << e.message();
    EXPECT_NE(e.message().find(part), std::string::npos) << e.message();
  };
  expect_type_error("%y = Relu(%s)", "node \"Relu\" (Relu): input 0 must be a tensor, got sequence[n](float32[2])");
  expect_type_error("%y = Concat(%s, %s) {axis=0}", "node \"Concat\"");
  expect_type_error("%y = SequenceInsert(%s, %i)", "node \"SequenceInsert\"");
  expect_type_error("%y = SequenceConstruct(%i, %s)", "node \"SequenceConstruct\"");
  expect_type_error("%y = SequenceAt(%i, %i)", "node \"SequenceAt\"");
  expect_type_error("%y = If(%c) then { -> (%s) } else { -> (%i) }", "branches");
  expect_type_error("%y = Scan(%s) {num_scan_inputs=1} body(%x: float32[2]) { -> (%x) }", "only tensors");
}

TEST(Collections, TextIsReadBack) {
  const std::unique_ptr<Graph> graph = parse_graph(kEdit);
  PrintOptions options;
  options.types = true;
  const std::string text = print_graph(*graph, options);
  EXPECT_NE(text.find("%s: sequence[3](float32[*])"), std::string::npos) << text;
  EXPECT_EQ(graph_difference(*graph, *parse_graph(text)), "");
  EXPECT_EQ(build_error("graph @main(%s: sequence[n]) -> (%s) {\n}").code(), Code::PARSE);
  EXPECT_EQ(build_error("graph @main(%s: sequence[2,3](float32[])) -> (%s) {\n}").code(), Code::PARSE);
}

TEST(Collections, NothingIsKeptAfterTheLastOwner) {
  const auto owner = std::make_shared<int>(0);
  const float data[2] = {1, 2};
  const char* text = R"(graph @main(%s: sequence[n](float32[2]), %n: int64[]) -> (%t, %o) {
  %go = constant bool[] [true]
  %t = Loop(%n, %go, %s) body(%i: int64[], %keep: bool[], %c: sequence[m](float32[2])) {
    %first = SequenceAt(%c, %i)
    %more = SequenceInsert(%c, %first)
    -> (%keep, %more)
  }
  %o = Optional(%t)
})";
  size_t steady = 0;
  {
    Context context(engine_of(text));
    for (int i = 0; i < 100; ++i) {
      const Tensor element(DType::FLOAT32, {2}, data, owner);
      std::vector<Tensor> out = run(context, {sequence({element, element}), number(i % 3)});
      ASSERT_EQ(out[0].count(), 2 + i % 3);
      ASSERT_TRUE(out[1].as<Tensor>()[0].same_as(out[0]));
      if (i == 8) steady = context.memory_bytes();
      if (i > 8 && i % 3 == 2) {
        EXPECT_EQ(context.memory_bytes(), steady) << "run " << i;
      }
    }
    EXPECT_GT(owner.use_count(), 1);  // what the last run made
  }
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace

}  // namespace deepjit
