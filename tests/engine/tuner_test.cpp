// What the tuner promises: right choices, reusable choices, and a valid engine whatever the budget.
#include "tune/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "graph/parse.h"
#include "lower/lower.h"
#include "runtime/engine.h"
#include "tune/cache.h"
#include "tune/measure.h"
#include "tune/verify.h"

namespace deepjit {

namespace {

namespace fs = std::filesystem;

Program conv_program() {
  return lower(*parse_graph(R"(graph @main(%x: float32[1,12,12,32]) -> (%y) {
    %w = constant float32[32,32,3,3] random(1)
    %y = deepjit.Conv(%x, %w) {layout="NHWC", kernel_shape=[3,3], pads=[1,1,1,1]}
  })"));
}

std::vector<TuneTask> tasks_of(const Program& program) {
  const TensorDesc x{DType::FLOAT32, {1, 12, 12, 32}};
  const TensorDesc w{DType::FLOAT32, {32, 32, 3, 3}};
  const Step& step = program.steps[0];
  return {{0, {x, w}, {x}, {Tensor(), program.buffers[static_cast<size_t>(step.inputs[1])].constant}}};
}

std::vector<double> run(Program program) {
  Context context(std::make_shared<Engine>(std::move(program), nullptr), 1);
  Tensor x(DType::FLOAT32, {1, 12, 12, 32});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>((i * 37) % 101) / 101.0f - 0.5f;
  const TensorView view = x.view();
  std::vector<TensorView> outputs;
  context.run(std::span(&view, 1), outputs);
  return to_f64(outputs[0]);
}

// A folder of its own, empty.
std::string fresh_folder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  fs::remove_all(folder);
  return folder;
}

}  // namespace

TEST(Tuner, ChoosesByMeasuringAndKeepsTheResult) {
  const std::vector<double> want = run(conv_program());
  Program program = conv_program();
  const TuneReport report = tune(program, tasks_of(program), {});
  ASSERT_EQ(report.choices.size(), 1u);
  EXPECT_EQ(report.measured, 1u);
  EXPECT_GT(report.choices[0].time_us, 0);
  EXPECT_LE(report.choices[0].max_error, 1e-4);
  const std::vector<double> got = run(program);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4);
}

TEST(Tuner, DropsWhatDoesNotAgreeWithTheReferenceAndNamesIt) {
  Program program = conv_program();
  TuneOptions options;
  options.tolerance = 1e-12;  // no library kernel sums in the reference's order
  std::vector<std::string> lines;
  options.log = [&](const std::string& line) { lines.push_back(line); };
  const TuneReport report = tune(program, tasks_of(program), options);
  EXPECT_EQ(report.choices[0].tactic, "reference");
  const bool named = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("onednn") != std::string::npos && line.find("dropped") != std::string::npos;
  });
  EXPECT_TRUE(named);
}

TEST(Tuner, ReusesALockfileExactly) {
  Program first = conv_program();
  const TuneReport measured = tune(first, tasks_of(first), {});
  Program second = conv_program();
  TuneOptions options;
  options.lock_text = measured.lock_text;
  const TuneReport reused = tune(second, tasks_of(second), options);
  EXPECT_EQ(reused.measured, 0u);
  EXPECT_EQ(reused.reused, 1u);
  EXPECT_EQ(reused.lock_text, measured.lock_text);
  EXPECT_EQ(second.steps[0].tactic.variant, first.steps[0].tactic.variant);
}

TEST(Tuner, EndsOnTimeWithAValidEngine) {
  Program program = conv_program();
  TuneOptions options;
  options.budget_s = 1e-9;
  const TuneReport report = tune(program, tasks_of(program), options);
  EXPECT_EQ(report.measured, 0u);
  EXPECT_EQ(report.out_of_budget, 1u);
  EXPECT_EQ(run(program), run(conv_program()));
}

TEST(Tuner, StopsMeasuringWhenTimeIsUp) {
  struct Counter : Kernel {
    int runs = 0;
    void run(const KernelArgs&) override { ++runs; }
  };
  const Program program = conv_program();
  const std::vector<TuneTask> tasks = tasks_of(program);
  Workbench bench(program.steps[0], tasks[0], false, 1);
  Counter patient;
  Counter hasty;
  time_kernels(bench, {&patient});
  time_kernels(bench, {&hasty}, false, [] { return true; });
  EXPECT_LE(hasty.runs, 110);  // the warm-up and one round
  EXPECT_GE(patient.runs, 5 * 100);
}

// A kernel whose results have the bits of the one before is not compared with the reference again; another is.
TEST(Tuner, JudgesTheSameBitsOnce) {
  struct Fixed : Kernel {
    float value = 0;
    int64_t count = 0;
    void run(const KernelArgs& args) override { std::fill_n(static_cast<float*>(args.outputs[0]), count, value); }
  };
  const Program program = conv_program();
  const std::vector<TuneTask> tasks = tasks_of(program);
  Workbench bench(program.steps[0], tasks[0], false, 1);
  bench.run_reference(shape_of(program, tasks[0], {}));
  int judged = 0;
  const auto tolerance = [&](DType) {
    ++judged;
    return 1e-5;
  };
  Fixed kernel;
  kernel.count = tasks[0].outputs[0].dims.count();
  const auto error = [&](float value) {
    kernel.value = value;
    bench.run(kernel);
    const Workbench::Errors errors = bench.errors(Workbench::Scale::OUTPUT, tolerance);
    EXPECT_FALSE(errors.pass);
    return errors.wrong;
  };
  const double first = error(1);
  EXPECT_EQ(error(1), first);
  EXPECT_EQ(judged, 1);
  const double second = error(100);
  EXPECT_GT(second, first);
  EXPECT_EQ(error(1), first);
  EXPECT_EQ(judged, 3);
}

TEST(Tuner, KeepsAConstantOnlyInTheFormThatIsUsed) {
  Program program = conv_program();
  TuneOptions options;
  options.force_tactic = "onednn";
  tune(program, tasks_of(program), options);
  ASSERT_EQ(program.steps[0].tactic.provider, "onednn");
  const Buffer& weights = program.buffers[static_cast<size_t>(program.steps[0].inputs[1])];
  EXPECT_TRUE(weights.is_constant);
  EXPECT_EQ(weights.constant.defined(), program.steps[0].tactic.packed.empty());
}

TEST(Lockfile, ReadsWhatItWritesAndNamesABadLine) {
  const Choice choice{std::string(32, 'a'), "Conv", "onednn:plain/jit", 12.5, 0.25, 1e-6};
  const auto read = read_lock(write_lock({choice}));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read.begin()->second.tactic, "onednn:plain/jit");
  EXPECT_EQ(write_lock({read.begin()->second}), write_lock({choice}));
  Choice region{std::string(32, 'b'), "deepjit.Region", "reference:steps", 12.5, 0.25, 1e-6, Why::NOT_FASTER, 13.5};
  const auto again = read_lock(write_lock({region}));
  EXPECT_EQ(again.begin()->second.why, Why::NOT_FASTER);
  EXPECT_EQ(again.begin()->second.figure, 13.5);
  EXPECT_THROW(read_lock(std::string(32, 'b') + " Add reference 1 1 0 no-such-rule 1\n"), Error);
  EXPECT_THROW(read_lock(std::string(32, 'b') + " Add reference 1 1 0 not-faster\n"), Error);
  try {
    read_lock("# comment\nnot a line\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::ARGUMENT);
    EXPECT_NE(e.message().find("line 2"), std::string::npos);
  }
}

TEST(TuningCache, PutsDamagedRecordsAside) {
  const std::string folder = fresh_folder("tuning_cache");
  const TuningCache cache(folder);
  const Choice choice{std::string(32, 'b'), "Conv", "onednn:plain/jit", 12.5, 0.25, 1e-6};
  EXPECT_FALSE(cache.find(choice.fingerprint).has_value());
  cache.store(choice, "what it was measured on");
  ASSERT_TRUE(cache.find(choice.fingerprint).has_value());
  EXPECT_EQ(cache.find(choice.fingerprint)->tactic, choice.tactic);

  const std::string path = folder + "/bb/" + choice.fingerprint + ".tune";
  std::fstream file(path, std::ios::in | std::ios::out);
  file.seekp(80);
  file.put('!');
  file.close();
  EXPECT_FALSE(cache.find(choice.fingerprint).has_value());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(folder + "/quarantine/" + choice.fingerprint + ".tune"));
  cache.store(choice, "what it was measured on");
  EXPECT_TRUE(cache.find(choice.fingerprint).has_value());
}

}  // namespace deepjit
