// diagnose() of the public API.
#include "api/internal.h"
// internal.h comes first
#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/impl.h"

namespace deepjit {
inline namespace v1 {

namespace {

Finding to_public(const doctor::Finding& f) {
  Finding out;
  out.rule = f.rule->id;
  out.name = f.rule->name;
  out.severity = doctor::severity_name(f.severity);
  out.node = f.node;
  out.op = f.op;
  out.value = f.value;
  out.message = f.message;
  out.title = f.rule->title;
  out.why = f.rule->why;
  out.hint = f.rule->fix;
  out.nodes = f.nodes;
  out.bytes = f.bytes;
  out.time_us = f.time_us;
  out.fixable = f.fixable();
  return out;
}

std::vector<Finding> diagnosed(std::span<const uint8_t> model, const DoctorOptions& options,
                               const std::string& folder) {
  doctor::Options inner;
  inner.folder = options.model_folder.empty() ? folder : options.model_folder;
  for (const std::string& text : options.settings) doctor::parse_settings(text, inner.settings);
  inner.traffic = doctor::parse_traffic(options.traffic);
  inner.ignored = {options.ignore.begin(), options.ignore.end()};
  inner.measure = options.measure;
  std::vector<Finding> findings;
  for (const doctor::Finding& f : doctor::diagnose(model, inner).findings) findings.push_back(to_public(f));
  return findings;
}

std::span<const uint8_t> as_uint8(const void* data, size_t size) { return {static_cast<const uint8_t*>(data), size}; }

}  // namespace

std::vector<Finding> diagnose(const std::string& model_path, const DoctorOptions& options) {
  return guarded([&] {
    std::error_code ignored;
    std::ifstream in(model_path, std::ios::binary);
    if (!in || !std::filesystem::is_regular_file(model_path, ignored)) {
      throw internal::Error(Code::FILE_NOT_FOUND, "cannot open \"" + model_path + "\"");
    }
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const std::string folder = std::filesystem::path(model_path).parent_path().string();
    return diagnosed(as_uint8(bytes.data(), bytes.size()), options, folder.empty() ? "." : folder);
  });
}

std::vector<Finding> diagnose(std::span<const std::byte> model, const DoctorOptions& options) {
  return guarded([&] { return diagnosed(as_uint8(model.data(), model.size()), options, ""); });
}

}  // namespace v1
}  // namespace deepjit
