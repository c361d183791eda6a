// How somebody is going to build or run a model with TensorRT or ONNX Runtime: the settings that rules look at.
//
// Read from a trtexec command line or from JSON that uses the tools' own option names:
//   {"tensorrt": {"int8": true, "calib": "c.cache", "minShapes": "x:1x3x224x224", "memPoolSize": "workspace:512", ...,
//                 "threads": 4, "execution_contexts": 1},
//    "onnxruntime": {"providers": ["CUDAExecutionProvider", ...], "graph_optimization_level": "ORT_ENABLE_ALL",
//                    "threads_sharing_session": 8, "threads_sharing_io_binding": 2}}
// Options that no rule looks at are passed over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"

namespace deepjit::doctor {

struct TensorRtSettings {
  bool int8 = false, fp16 = false, best = false, strongly_typed = false;
  std::string calibration;                    // the cache file
  std::map<std::string, Dims> min, opt, max;  // the profile, by input
  std::optional<int64_t> workspace;           // bytes
  int64_t threads = 1;                        // that use the engine at once
  int64_t execution_contexts = 0;             // that they share; 0: not said
  std::string model;                          // of --onnx
};

struct OnnxRuntimeSettings {
  std::vector<std::string> providers;
  std::string graph_optimization_level;  // as written; empty: not said
  std::string optimized_model_filepath;
  int64_t threads_sharing_session = 1;
  int64_t threads_sharing_io_binding = 1;
};

struct Settings {
  std::optional<TensorRtSettings> tensorrt;
  std::optional<OnnxRuntimeSettings> onnxruntime;
};

// Adds what `text` says: JSON when it starts with a brace, else a trtexec command line. Throws Error(ARGUMENT).
void parse_settings(const std::string& text, Settings& settings);

}  // namespace deepjit::doctor
