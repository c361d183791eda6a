#include "harness.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compiler/shapes.h"
#include "engine/format.h"
#include "graph/verify.h"
#include "import/importer.h"
#include "lower/lower.h"
#include "passes/pipeline.h"
#include "runtime/binding.h"
#include "runtime/engine.h"

namespace deepjit::fuzz {

namespace {

constexpr int kMostNodes = 64;                 // of a model that goes through the passes
constexpr double kFoldWork = 200'000;          // a fraction of a second under sanitizers
constexpr int64_t kMostElements = 4096;        // of an input that is made up
constexpr size_t kMostArena = 1 << 16;         // of a program that is run
constexpr size_t kMostSteps = 32;              // of a program that is bound
constexpr int64_t kMostContraction = 1 << 22;  // product of the element counts of a step's two largest operands

std::string outcome;

ImportOptions small_limits() {
  ImportOptions options;
  options.max_nodes = 500;
  options.max_depth = 8;
  options.max_loop_depth = 2;
  options.max_inlined_bytes = 1 << 20;
  options.max_sparse_bytes = 1 << 16;
  return options;
}

// Runs `body` and notes the outcome; an error of another kind than `allowed` says is a finding.
template <typename F, typename Allowed>
void guarded(const char* what, F&& body, Allowed&& allowed) {
  try {
    body();
    outcome = "taken";
  } catch (const Error& e) {
    outcome = code_name(e.code());
    if (!allowed(e.code())) throw Finding(std::string(what) + ": " + e.what());
  } catch (const Finding&) {
    throw;
  } catch (const std::bad_alloc&) {
    outcome = "bad_alloc";
  } catch (const std::exception& e) {
    throw Finding(std::string(what) + ": foreign exception: " + e.what());
  }
}

bool not_internal(Code code) { return code != Code::INTERNAL; }
bool never(Code code) { return false; }
bool of_engine(Code code) { return static_cast<int>(code) / 100 == 4 || code == Code::HOST_OOM; }

struct Aligned {
  std::shared_ptr<uint8_t> owner;
  std::span<const uint8_t> bytes;
};

// Constants are used where they lie, so the copy is aligned as a file in memory is.
Aligned aligned_copy(std::span<const uint8_t> bytes) {
  auto* memory =
      static_cast<uint8_t*>(std::aligned_alloc(kSectionAlign, (bytes.size() / kSectionAlign + 1) * kSectionAlign));
  std::shared_ptr<uint8_t> owner(memory, std::free);
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return {owner, {memory, bytes.size()}};
}

Input file_of(std::span<const uint8_t> input) {
  if (input.empty() || input[0] % 2 == 0 || input.size() < 5) {
    return {input.begin() + (input.empty() ? 0 : 1), input.end()};
  }
  uint32_t size = 0;
  std::memcpy(&size, input.data() + 1, sizeof size);
  const std::span<const uint8_t> rest = input.subspan(5);
  const std::span<const uint8_t> program = rest.first(std::min<size_t>(size, rest.size()));
  const std::span<const uint8_t> weights = rest.subspan(program.size());
  return seal_sections({{Section::PROGRAM, {program.begin(), program.end()}},
                        {Section::GRAPH, {}},
                        {Section::LOCK, {}},
                        {Section::WEIGHTS, {weights.begin(), weights.end()}}});
}

// A shape for an input: 2 for what is open. Nothing when it gets large.
bool made_up_shape(const TensorType& type, TensorDesc& desc) {
  if (type.dtype == DType::UNDEFINED || is_object(type.dtype)) return false;
  desc = {type.dtype, {}};
  for (int i = 0; type.shape.ranked() && i < type.shape.rank(); ++i) {
    desc.dims.push_back(type.shape[i].is_const() ? type.shape[i].value() : 2);
    if (desc.dims.back() < 0) return false;
  }
  return desc.count() <= kMostElements;
}

// Some work to do, but not too much of it.
bool worth_running(const Program& program, const Binding& binding) {
  if (binding.arena_bytes > kMostArena) return false;
  for (const Slot& slot : binding.slots) {
    if (slot.desc.dtype != DType::UNDEFINED && slot.desc.bytes() > static_cast<int64_t>(kMostArena)) return false;
  }
  for (const BoundStep& bound : binding.steps) {
    if (bound.kind != BoundStep::Kind::KERNEL && bound.kind != BoundStep::Kind::COPY) return false;
    int64_t product = 1;
    for (int32_t buffer : bound.inputs) {
      if (buffer < 0) continue;
      product *= std::max<int64_t>(1, binding.slots[static_cast<size_t>(buffer)].desc.count());
      if (product > kMostContraction) return false;
    }
  }
  return true;
}

// Without tactics: what a library kernel does with a made-up tactic is for the tests of that provider.
bool reference_only(Program& program) {
  for (Step& step : program.steps) step.tactic = Tactic{};
  for (const Buffer& buffer : program.buffers) {
    if (is_object(buffer.type.dtype) || (buffer.is_constant && !buffer.constant.defined())) return false;
  }
  return std::none_of(program.steps.begin(), program.steps.end(),
                      [](const Step& step) { return !step.blocks.empty(); });
}

void run_program(Program program, std::shared_ptr<const void> owner) {
  if (program.steps.size() > kMostSteps || !reference_only(program)) return;
  const auto engine = std::make_shared<const Engine>(std::move(program), std::move(owner));
  std::vector<TensorDesc> descs;
  BindRequest request;
  request.make_kernels = false;
  for (const ProgramInput& input : engine->program().inputs) {
    descs.emplace_back();
    if (!made_up_shape(engine->program().buffers[static_cast<size_t>(input.buffer)].type, descs.back())) return;
    request.inputs.emplace_back(input.buffer, descs.back());
  }
  if (!worth_running(engine->program(), *bind(engine->info(), request))) return;
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  for (const TensorDesc& desc : descs) {
    tensors.emplace_back(desc.dtype, desc.dims);
    for (int64_t i = 0; i < desc.bytes(); ++i) tensors.back().as<uint8_t>()[i] = static_cast<uint8_t>(i % 3);
    views.push_back(tensors.back().view());
  }
  Context context(engine, 1);
  std::vector<TensorView> outputs;
  context.run(views, outputs);
}

}  // namespace

std::string last_outcome() { return outcome; }

void run_import(std::span<const uint8_t> bytes) {
  Program program;
  guarded(
      "import",
      [&] {
        const ImportedModel model = import_onnx(bytes, small_limits());
        verify(*model.graph);
        if (count_nodes(*model.graph) > kMostNodes) return;
        PassOptions options;
        options.fold_work = kFoldWork;
        options.verify = true;
        run_pipeline(*model.graph, options);
        program = lower(*model.graph);
      },
      not_internal);
  if (program.blocks.empty()) return;
  // Whatever is built must be an engine.
  const Aligned file = aligned_copy(write_engine({program, "", ""}));
  guarded(
      "read back", [&] { read_engine(file.bytes, file.owner); }, never);
}

void run_engine(std::span<const uint8_t> bytes) {
  const Aligned file = aligned_copy(file_of(bytes));
  LoadedFile loaded;
  guarded(
      "engine", [&] { loaded = read_engine(file.bytes, file.owner); }, of_engine);
  if (loaded.file.program.blocks.empty()) return;
  guarded(
      "write again",
      [&] {
        const Aligned again = aligned_copy(write_engine(loaded.file));
        const Input third = write_engine(read_engine(again.bytes, again.owner).file);
        if (!std::equal(third.begin(), third.end(), again.bytes.begin(), again.bytes.end())) {
          throw Finding("an engine changes when it is read and written");
        }
      },
      never);
  guarded(
      "run", [&] { run_program(loaded.file.program, file.owner); }, not_internal);
}

std::vector<Input> import_seeds(const std::string& folder, size_t max_bytes, size_t stride) {
  std::vector<std::filesystem::path> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto model = entry.path() / "model.onnx";
    if (std::filesystem::exists(model) && std::filesystem::file_size(model) <= max_bytes) paths.push_back(model);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (size_t i = 0; i < paths.size(); i += stride) {
    std::ifstream file(paths[i], std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

std::vector<Input> engine_seeds(const std::vector<Input>& models) {
  std::vector<Input> seeds;
  for (const Input& model : models) {
    std::vector<uint8_t> file;
    try {
      const ImportedModel imported = import_onnx(model, small_limits());
      PassOptions options;
      options.level = static_cast<int>(seeds.size() % 4);
      options.fold_work = kFoldWork;
      run_pipeline(*imported.graph, options);
      Program lowered = lower(*imported.graph, {.regions = false});
      if (seeds.size() % 8 == 3) set_ranges(lowered, std::vector<RangeSet>(2));
      file = write_engine({std::move(lowered), "", ""});
    } catch (const Error&) {
      continue;
    }
    auto sections = open_sections(file);
    const auto program = sections[Section::PROGRAM];
    const auto weights = sections[Section::WEIGHTS];
    const auto size = static_cast<uint32_t>(program.size());
    Input seed(5, 1);
    std::memcpy(seed.data() + 1, &size, sizeof size);
    seed.insert(seed.end(), program.begin(), program.end());
    seed.insert(seed.end(), weights.begin(), weights.end());
    seeds.push_back(std::move(seed));
    if (seeds.size() % 64 == 1) {  // some as whole files
      file.insert(file.begin(), 0);
      seeds.push_back(std::move(file));
    }
  }
  return seeds;
}

}  // namespace deepjit::fuzz
