#include <fmt/format.h>

#include <fstream>

#include "program/tf32.h"
#include "tune/tuner.h"
#include "tune/verify.h"
#include "tune/wide_region.h"

namespace deepjit {

namespace {

// The steps of a region and how they hang together, by numbers of its own.
std::string wiring(const Program& program, const Step& region) {
  if (region.op != kRegionOp) return "";
  std::map<int32_t, size_t> numbers;
  std::string text = " {";
  auto name = [&](int32_t buffer) {
    return buffer < 0 ? std::string("-") : std::to_string(numbers.emplace(buffer, numbers.size()).first->second);
  };
  for (int32_t buffer : region.inputs) text += name(buffer) + " ";
  for (int32_t index : program.blocks[static_cast<size_t>(region.blocks[0])].steps) {
    const Step& step = program.steps[static_cast<size_t>(index)];
    text += "; " + step.op;
    for (const auto& [key, value] : step.attrs.all()) text += " " + key + "=" + attribute_to_string(value);
    for (int32_t buffer : step.inputs) text += " " + name(buffer);
    text += " ->";
    for (int32_t buffer : step.outputs) text += " " + name(buffer);
    if (step.op == kRegionOp) text += " " + step.tactic.provider + ":" + step.tactic.variant + wiring(program, step);
  }
  return text + "}";
}

}  // namespace

std::string gpu_text(const device::Info& info) {
  return fmt::format("{} sm_{} processors={} shared={}/{} l2={} clock={} memory={}x{} {}", info.model,
                     info.architecture, info.processors, info.shared_bytes_per_block, info.shared_bytes_per_processor,
                     info.l2_bytes, info.clock_khz, info.memory_clock_khz, info.memory_bus_bits, info.driver_version);
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t name = line.find_first_not_of(": \t", line.find(':'));
    return name == std::string::npos ? "unknown" : line.substr(name);
  }
  return "unknown";
}

std::string fingerprint_text(const Program& program, const TuneTask& task, const TuneOptions& options) {
  static const std::string cpu = cpu_model();
  const Step& step = program.steps[static_cast<size_t>(task.step)];
  std::string text = step.op;
  for (const auto& [name, value] : step.attrs.all()) text += " " + name + "=" + attribute_to_string(value);
  auto add = [&](const TensorDesc& d) { text += " " + std::string(dtype_name(d.dtype)) + d.dims.to_string(); };
  text += " in";
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    add(task.inputs[i]);
    if (!task.constants[i].defined()) continue;
    text += "const";
    if (task.constants[i].count() <= 16 && task.constants[i].dtype() != DType::STRING) {
      for (double v : task.constants[i].to_f64()) text += fmt::format(",{}", v);
    }
  }
  text += " out";
  for (const TensorDesc& d : task.outputs) add(d);
  text += wiring(program, step);
  if (options.device != "cpu") {
    text += " gpu=" + (options.present == nullptr ? "none" : gpu_text(options.present->info()));
    for (int architecture : options.architectures) text += " sm_" + std::to_string(architecture);
    if (options.cold_constants) text += " cold";
  } else {
    text += " threads=" + std::to_string(options.threads) + " cpu=" + cpu;
  }
  if (computes_in_16_bits(shape_of(program, task, options))) text += " wide";  // how it is verified
  if (may_use_tf32(program, step)) text += " tf32";
  if (options.tolerance > 0) text += fmt::format(" tolerance={}", options.tolerance);
  for (const Offerer* offerer : offerers()) {
    if (offerer->device() != options.device) continue;
    text += " " + offerer->name() + "=" + offerer->version();
    if (options.device == "cpu" || options.present != nullptr) text += offerer->measured_with();
  }
  return text;
}

}  // namespace deepjit
