// DJ701 to DJ703: ONNX Runtime's session settings.
#include <algorithm>
#include <array>

#include "doctor/checkup.h"

namespace deepjit::doctor {

namespace {

const OnnxRuntimeSettings* settings_of(const Checkup& checkup) {
  const auto& settings = checkup.options.settings.onnxruntime;
  return settings ? &*settings : nullptr;
}

// Special before general; a provider that is not known here has no place.
int rank_of(const std::string& provider) {
  if (provider == "CPUExecutionProvider") return 3;
  if (provider == "XnnpackExecutionProvider" || provider == "DnnlExecutionProvider" ||
      provider == "ACLExecutionProvider") {
    return 2;
  }
  static const std::array general = {"CUDAExecutionProvider", "ROCMExecutionProvider", "DmlExecutionProvider",
                                     "WebGpuExecutionProvider"};
  if (std::find(general.begin(), general.end(), provider) != general.end()) return 1;
  static const std::array special = {"TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider",
                                     "MIGraphXExecutionProvider", "OpenVINOExecutionProvider",
                                     "QNNExecutionProvider",      "CoreMLExecutionProvider",
                                     "NnapiExecutionProvider",    "VitisAIExecutionProvider"};
  return std::find(special.begin(), special.end(), provider) != special.end() ? 0 : -1;
}

// The first provider that compiles subgraphs with a compiler of its own; empty when there is none.
std::string compiling_provider(const OnnxRuntimeSettings& ort) {
  for (const std::string& provider : ort.providers) {
    if (rank_of(provider) == 0) return provider;
  }
  return "";
}

bool rewrites(const std::string& level) {
  std::string plain;
  for (char c : level) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* prefix : {"graphoptimizationlevel.", "ort_enable_", "ort_"}) {
    if (plain.rfind(prefix, 0) == 0) plain = plain.substr(std::string(prefix).size());
  }
  return plain == "all" || plain == "extended" || plain == "layout" || plain == "2" || plain == "3" || plain == "99";
}

}  // namespace

void check_provider_order(Checkup& checkup) {
  const OnnxRuntimeSettings* ort = settings_of(checkup);
  if (ort == nullptr) return;
  for (size_t i = 0; i + 1 < ort->providers.size(); ++i) {
    for (size_t j = i + 1; j < ort->providers.size(); ++j) {
      const int before = rank_of(ort->providers[i]);
      const int after = rank_of(ort->providers[j]);
      if (before < 0 || after < 0 || before <= after) continue;
      checkup.found(ort->providers[i] + " comes before " + ort->providers[j] + " and takes its nodes");
      return;
    }
  }
}

void check_rewritten_subgraph(Checkup& checkup) {
  const OnnxRuntimeSettings* ort = settings_of(checkup);
  if (ort == nullptr || !rewrites(ort->graph_optimization_level)) return;
  const std::string provider = compiling_provider(*ort);
  if (provider.empty()) return;
  checkup.found(ort->graph_optimization_level + " fuses nodes before " + provider + " sees them" +
                (ort->optimized_model_filepath.empty() ? "" : ", and the result is saved"));
}

void check_shared_session(Checkup& checkup) {
  const OnnxRuntimeSettings* ort = settings_of(checkup);
  if (ort == nullptr) return;
  if (ort->threads_sharing_io_binding > 1) {
    checkup.found(std::to_string(ort->threads_sharing_io_binding) + " threads share one IOBinding: their data mix");
  }
  if (ort->threads_sharing_session <= 1) return;
  for (const std::string& provider : ort->providers) {
    if (rank_of(provider) < 0 || rank_of(provider) > 1) continue;
    checkup.found(std::to_string(ort->threads_sharing_session) + " threads share one session of " + provider +
                  ", which has one context and one stream");
    return;
  }
}

}  // namespace deepjit::doctor
