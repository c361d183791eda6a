// The engine file: what is written is read back; every kind of damage is refused.
#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "compiler/build.h"
#include "engine/format.h"
#include "graph/parse.h"
#include "lower/lower.h"

namespace deepjit {

namespace {

EngineFile small_engine() {
  const auto graph = parse_graph(R"(graph @main(%x: float32[N,4]) -> (%y) {
    %w = constant float32[4] [1, 2, 3, 4]
    %a = Mul(%x, %w)
    %y = Relu(%a)
  })");
  EngineFile file;
  file.program = lower(*graph);
  file.program.metadata["note"] = "small";
  file.graph_text = "graph";
  file.lock_text = "lock";
  return file;
}

std::vector<float> run(const Program& program, std::vector<float> x) {
  Context context(std::make_shared<Engine>(program, nullptr), 1);
  const Dims dims{static_cast<int64_t>(x.size()) / 4, 4};
  const TensorView input{DType::FLOAT32, dims, x.data()};
  std::vector<TensorView> outputs;
  context.run(std::span(&input, 1), outputs);
  return {outputs[0].as<float>(), outputs[0].as<float>() + outputs[0].count()};
}

// The error code of reading `bytes`, or OK.
Code code_of(std::span<const uint8_t> bytes) {
  try {
    read_engine(bytes, nullptr);
    return Code::OK;
  } catch (const Error& e) {
    return e.code();
  }
}

bool is_engine_error(Code code) { return static_cast<int>(code) / 100 == 4; }

}  // namespace

TEST(EngineFile, ReadsBackWhatWasWritten) {
  const std::vector<uint8_t> bytes = write_engine(small_engine());
  const LoadedFile loaded = read_engine(bytes, nullptr);
  EXPECT_EQ(loaded.file.program.metadata.at("note"), "small");
  EXPECT_EQ(loaded.file.graph_text, "graph");
  EXPECT_EQ(loaded.file.lock_text, "lock");
  EXPECT_EQ(run(loaded.file.program, {1, -1, 1, 1, 2, 2, 2, 2}), (std::vector<float>{1, 0, 3, 4, 2, 4, 6, 8}));
  EXPECT_EQ(write_engine(loaded.file), bytes);
}

TEST(EngineFile, RefusesEveryFlippedByte) {
  std::vector<uint8_t> bytes = write_engine(small_engine());
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= static_cast<uint8_t>(1u << (i % 8));
    ASSERT_TRUE(is_engine_error(code_of(bytes))) << "byte " << i << " code " << static_cast<int>(code_of(bytes));
    bytes[i] ^= static_cast<uint8_t>(1u << (i % 8));
  }
  EXPECT_EQ(code_of(bytes), Code::OK);
}

TEST(EngineFile, RefusesEveryLength) {
  const std::vector<uint8_t> bytes = write_engine(small_engine());
  for (size_t n = 0; n < bytes.size(); ++n) {
    ASSERT_TRUE(is_engine_error(code_of(std::span(bytes).first(n)))) << "length " << n;
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  EXPECT_TRUE(is_engine_error(code_of(longer)));
}

// The hashes hold, but a field is wrong: the reader must not trust it.
TEST(EngineFile, RangeChecksFieldsBehindValidHashes) {
  auto damaged = [](auto&& damage) {
    EngineFile file = small_engine();
    damage(file.program);
    return code_of(write_engine(file));
  };
  EXPECT_EQ(damaged([](Program& p) { p.steps[0].inputs[0] = 99; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.steps[0].outputs[0] = -2; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.blocks[0].steps[0] = 7; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.blocks[0].steps = {0, 0}; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.blocks.clear(); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.outputs.clear(); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.steps[0].inputs.clear(); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.steps[0].blocks = {0}; }), Code::ENGINE_RANGE);
  const auto ledger = [](auto&& damage) {
    return [damage](Program& p) {
      p.ledger.push_back({p.steps[0].outputs[0], 0, 0, Why::NOT_FASTER, "reason", "fix", Dim(8), 8, 1});
      damage(p.ledger[0]);
    };
  };
  EXPECT_EQ(damaged(ledger([](LedgerEntry&) {})), Code::OK);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.value = 99; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.value = 0; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.producer = -1; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.consumer = 99; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.rule = Why::NONE; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.bytes_at_opt = -2; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged(ledger([](LedgerEntry& e) { e.launches = 2; })), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.steps[0].op = "NoSuchOp"; }), Code::ENGINE_INCOMPATIBLE);
}

TEST(EngineFile, ChecksTheEdgesThatTuningStartsFrom) {
  const auto read = [](int32_t consumer) {
    EngineFile file = small_engine();
    file.edges.push_back(
        {file.program.steps[0].outputs[0], 0, consumer, Why::NOT_FASTER, "reason", "fix", Dim(8), 8, 1});
    const std::vector<uint8_t> bytes = write_engine(file);
    const LoadedFile loaded = read_engine(bytes, nullptr);
    EXPECT_EQ(loaded.file.edges.size(), 1U);
    EXPECT_EQ(loaded.file.edges[0].reason, "reason");
    EXPECT_EQ(write_engine(loaded.file), bytes);
  };
  read(0);
  EXPECT_THROW(read(99), Error);
}

// A combo holds regions and views, and its regions hold no regions.
TEST(EngineFile, ChecksWhatACombosBlockHolds) {
  auto wrapped = [](int depth, bool beside) {
    EngineFile file = small_engine();
    Program& p = file.program;
    for (int i = 0; i < depth; ++i) {
      Step region;
      region.op = kRegionOp;
      const int32_t inner = p.blocks[0].steps[0];
      region.inputs = p.steps[static_cast<size_t>(inner)].inputs;
      region.outputs = p.steps[static_cast<size_t>(inner)].outputs;
      region.blocks = {static_cast<int32_t>(p.blocks.size())};
      p.blocks.push_back({region.inputs, region.outputs, {inner}});
      p.steps.push_back(region);
      p.blocks[0].steps[0] = static_cast<int32_t>(p.steps.size()) - 1;
    }
    if (beside) {
      Step plain = p.steps[0];
      plain.outputs = {static_cast<int32_t>(p.buffers.size())};
      p.buffers.push_back({"beside", p.buffers[static_cast<size_t>(p.steps[0].outputs[0])].type, false, {}});
      p.blocks.back().steps.push_back(static_cast<int32_t>(p.steps.size()));
      p.steps.push_back(plain);
    }
    return code_of(write_engine(file));
  };
  // The model is one region.
  EXPECT_EQ(wrapped(0, true), Code::OK);
  EXPECT_EQ(wrapped(1, false), Code::OK);
  EXPECT_EQ(wrapped(1, true), Code::ENGINE_RANGE);
  EXPECT_EQ(wrapped(2, false), Code::ENGINE_RANGE);
}

TEST(EngineFile, SavesWholeOrNotAtAll) {
  const std::string folder = ::testing::TempDir();
  const std::string path = folder + "/small.dje";
  save_engine(small_engine(), path);
  const LoadedFile loaded = load_engine(path);
  EXPECT_EQ(run(loaded.file.program, {1, 1, 1, 1}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_THROW(save_engine(small_engine(), folder + "/no/such/folder/x.dje"), Error);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(entry.path().string().find(".dje.tmp"), std::string::npos);
  }
}

}  // namespace deepjit
