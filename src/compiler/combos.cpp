#include "compiler/combos.h"

#include <algorithm>

#include "lower/combos.h"

namespace deepjit {

namespace {

std::map<int32_t, int64_t> bytes_by_step(const Probe& probed) {
  std::map<int32_t, int64_t> bytes;
  for (const TuneTask& task : probed.tasks) {
    int64_t& sum = bytes[task.step];
    for (const auto* list : {&task.inputs, &task.outputs}) {
      for (const TensorDesc& desc : *list) {
        if (desc.dtype != DType::UNDEFINED) sum = checked_add(sum, desc.bytes());
      }
    }
  }
  return bytes;
}

}  // namespace

TuneReport tune_combos(Program& program, const Probe& probed, TuneOptions options, TuneReport before) {
  if (options.device != "cpu") return before;  // kernels of a GPU have a launch each
  const std::vector<int32_t> made = join_launches(program, bytes_by_step(probed), llvm_launcher().name());
  if (made.empty()) return before;
  bool guessed = false;
  std::vector<TuneTask> tasks = probe(program, Which::OPT, options.threads, &guessed).tasks;
  std::erase_if(tasks, [&](const TuneTask& task) { return std::count(made.begin(), made.end(), task.step) == 0; });
  return tune(program, tasks, options, std::move(before));
}

}  // namespace deepjit
