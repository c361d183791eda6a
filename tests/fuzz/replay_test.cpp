// The fuzzers' harness without a fuzzer: seeds, regressions and a bounded number of random changes of them.
//
// The changes come from a fixed seed, so a failure repeats; it names the file that holds the input.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "harness.h"

namespace deepjit::fuzz {
namespace {

using Run = void (*)(std::span<const uint8_t>);

void keep(const Input& input, const std::string& path) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
}

// Runs one input; a finding is kept in a file. With DEEPJIT_FUZZ_KEEP every input is, so that the last one before a
// crash is there.
void run_one(Run run, const Input& input, const std::string& name) {
  const std::string path = ::testing::TempDir() + "/deepjit_fuzz_" + name;
  if (std::getenv("DEEPJIT_FUZZ_KEEP") != nullptr) keep(input, path);
  try {
    run(input);
  } catch (const std::exception& e) {
    keep(input, path + "_finding");
    FAIL() << path << "_finding: " << e.what();
  }
}

struct Counts {
  std::map<std::string, int> outcomes;
  void note() { ++outcomes[last_outcome()]; }
};

std::vector<Input> seeds() { return import_seeds(DEEPJIT_NODE_TESTS, 2048, 6); }

TEST(Fuzz, ImporterTakesNodeTestsAndTheirMutants) {
  const std::vector<Input> models = seeds();
  ASSERT_GT(models.size(), 100u) << DEEPJIT_NODE_TESTS;
  Counts counts;
  for (const Input& model : models) {
    run_one(run_import, model, "import");
    counts.note();
  }
  EXPECT_GT(counts.outcomes["taken"], static_cast<int>(models.size() / 2)) << "the seeds are no good";
  std::mt19937_64 random(41);
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    const Input& model = models[random() % models.size()];
    Input changed =
        i % 4 == 0 ? mutate_bytes(model, models[random() % models.size()], random) : mutate_model(model, random);
    run_one(run_import, changed, "import");
    counts.note();
  }
  EXPECT_GE(counts.outcomes.size(), 6u) << "the mutants reach few errors";
}

TEST(Fuzz, EngineReaderTakesEnginesAndTheirMutants) {
  const std::vector<Input> engines = engine_seeds(seeds());
  ASSERT_GT(engines.size(), 50u);
  Counts counts;
  for (const Input& engine : engines) {
    run_one(run_engine, engine, "engine");
    counts.note();
  }
  EXPECT_GT(counts.outcomes["taken"], static_cast<int>(engines.size() / 2)) << "the seeds are no good";
  std::mt19937_64 random(42);
  for (int i = 0; i < 10000 && !HasFailure(); ++i) {
    run_one(run_engine, mutate_bytes(engines[random() % engines.size()], engines[random() % engines.size()], random),
            "engine");
    counts.note();
  }
  EXPECT_GE(counts.outcomes.size(), 3u);
}

// What a fuzzer found once: import_* and engine_* under regressions/.
TEST(Fuzz, Regressions) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DEEPJIT_FUZZ_REGRESSIONS)) {
    const std::string name = entry.path().filename().string();
    if (name == "README.md") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const Input input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    SCOPED_TRACE(name);
    run_one(name.rfind("engine_", 0) == 0 ? run_engine : run_import, input, "regression");
    ++inputs;
  }
  EXPECT_GT(inputs, 0);
}

}  // namespace
}  // namespace deepjit::fuzz
