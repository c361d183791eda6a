// deepjit devices: what engines can run on here, and which driver and compiler of CUDA were found.
#include <fmt/format.h>

#include "cli/text.h"
#include "cli/verb.h"
#include "codegen/cuda/nvrtc.h"
#include "device/limits.h"
#include "kernels/cublaslt/library.h"
#include "kernels/cudnn/library.h"

namespace deepjit::cli {

namespace {

Json json_of(const device::Found& found) {
  Json one = {{"name", found.name}, {"found", found.device != nullptr}};
  if (found.device == nullptr) {
    one["reason"] = found.reason;
    return one;
  }
  const device::Info& info = found.device->info();
  one["kind"] = info.kind;
  one["model"] = info.model;
  one["driver"] = info.driver;
  one["architecture"] = info.architecture;
  one["processors"] = info.processors;
  one["memory_bytes"] = info.memory_bytes;
  one["l2_bytes"] = info.l2_bytes;
  return one;
}

std::string text_of(const device::Found& found) {
  if (found.device == nullptr) return "not available: " + found.reason;
  const device::Info& info = found.device->info();
  std::string text = info.model;
  if (info.architecture > 0) text += fmt::format(", sm_{}", info.architecture);
  text += fmt::format(", {} processors, {}", info.processors, bytes_text(static_cast<double>(info.memory_bytes)));
  return info.driver.empty() ? text : text + ", driver of " + info.driver;
}

// What no kernel over much data goes past.
double copy_rate(device::Device& device) {
  const size_t most = device.info().kind == "cpu" ? size_t{1} << 28 : size_t{1} << 30;
  return device::copy_gb_s(device, std::min(most, device.free_bytes() / 4), 1);
}

// A library that GPUs need, as it was found here; an empty version where it is not.
struct FoundLibrary {
  std::string name, version, file, missing;
};

std::vector<FoundLibrary> find_libraries() {
  std::vector<FoundLibrary> all;
  all.push_back({"nvrtc", nvrtc::version(), nvrtc::library_path(),
                 "not installed: needed to build for GPUs (CUDA's toolkit, or pip's nvidia-cuda-nvrtc)"});
  const auto add = [&](const char* name, const auto* library, const char* missing) {
    all.push_back({name, library == nullptr ? "" : library->version, library == nullptr ? "" : library->file, missing});
  };
  add("cublaslt", cublaslt::find_library(),
      "not installed: matrix products on GPUs go without it (CUDA's toolkit, or pip's nvidia-cublas)");
  add("cudnn", cudnn::find_library(),
      "not installed: convolutions on GPUs go without it (NVIDIA's packages, or pip's nvidia-cudnn-cu13)");
  return all;
}

int print_devices(bool json, bool measure) {
  const std::vector<device::Found> all = device::find_all();
  if (json) {
    Json rows = Json::array();
    for (const device::Found& found : all) {
      rows.push_back(json_of(found));
      if (measure && found.device != nullptr) rows.back()["copy_gb_s"] = copy_rate(*found.device);
    }
    Json out = {{"devices", rows}};
    for (const FoundLibrary& library : find_libraries()) {
      out[library.name] = nullptr;
      if (!library.version.empty()) out[library.name] = {{"version", library.version}, {"file", library.file}};
    }
    print_json(out);
    return 0;
  }
  for (const device::Found& found : all) {
    fmt::print("{:<8} {}\n", found.name, text_of(found));
    if (measure && found.device != nullptr) fmt::print("{:<8} copies {:.0f} GB/s\n", "", copy_rate(*found.device));
  }
  for (const FoundLibrary& library : find_libraries()) {
    fmt::print("{:<8} {}\n", library.name,
               library.version.empty() ? library.missing : library.version + ", " + library.file);
  }
  return 0;
}

}  // namespace

Verb add_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto measure = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "show what engines can run on here");
  command->add_flag("--json", *json, "print one JSON object on stdout");
  command->add_flag("--measure", *measure, "also time large copies on each device, reading and writing counted");
  command->footer("Example: deepjit devices --measure");
  return {command, [json, measure] { return print_devices(*json, *measure); }};
}

}  // namespace deepjit::cli
