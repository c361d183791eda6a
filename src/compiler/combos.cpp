#include "compiler/combos.h"

#include <algorithm>

#include "kernels/launch_words.h"
#include "kernels/nvrtc/launch_data.h"
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

// Dispatching a step takes about 15 ns, moving 64 KiB between kernels 2 us. Above, joining gains less than the
// hundredths that a profile step by step is worth.
JoinRules rules_of_cpu() { return {llvm_launcher().name(), 64 << 10, 64, true, nullptr}; }

nvrtc_gpu::LaunchData gpu_launch_of(const Step& step) {
  const Tensor* launch = packed_data(step.tactic, nvrtc_gpu::kLaunchFormat);
  check_internal(launch != nullptr, "a generated kernel without launch data");
  return nvrtc_gpu::read_launch_data(*launch);
}

// A launch takes a microsecond or two, in which a GPU moves some megabytes.
JoinRules rules_of_gpu() {
  JoinRules rules{nvrtc_launcher().name(), 2 << 20, 16, false, nullptr};
  rules.fit = [](const Step& a, const Step& b) {
    const auto x = gpu_launch_of(a), y = gpu_launch_of(b);
    return x.threads == y.threads && x.row_buffers == 0 && y.row_buffers == 0 && !x.checks && !y.checks;
  };
  return rules;
}

}  // namespace

std::vector<int32_t> join_combos(Program& program, const Probe& probed, const TuneOptions& options) {
  return join_launches(program, bytes_by_step(probed), options.device == "cpu" ? rules_of_cpu() : rules_of_gpu());
}

TuneReport tune_combos(Program& program, const Probe& probed, TuneOptions options, TuneReport before) {
  const std::vector<int32_t> made = join_combos(program, probed, options);
  if (made.empty()) return before;
  bool guessed = false;
  std::vector<TuneTask> tasks = probe(program, Which::OPT, options.threads, &guessed).tasks;
  std::erase_if(tasks, [&](const TuneTask& task) { return std::count(made.begin(), made.end(), task.step) == 0; });
  return tune(program, tasks, options, std::move(before));
}

}  // namespace deepjit
