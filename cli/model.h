// A model to run: an engine file loaded, or an ONNX file built on the spot.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cli/build_flags.h"
#include "runtime/engine.h"

namespace deepjit::cli {

struct Model {
  bool built = false;  // from ONNX, just now
  std::shared_ptr<const Engine> engine;
  std::string graph_text;
  std::string lock_text;
  BuildReport report;         // when built
  double build_s = 0;         // when built
  double load_s = 0;          // from the file, or from the built program, to a usable engine
  size_t constant_bytes = 0;  // weights, plain and packed

  const Program& program() const { return engine->program(); }
  std::string metadata(const std::string& key, const std::string& fallback = "") const;
};

// An engine is known by its first bytes, so that a damaged one is not taken for a model.
bool is_engine_file(const std::string& path);

// Loads or builds. `fixed` holds the shapes that are going to be fed: a build is tuned for exactly these
// unless flags give a range. Throws INPUT_NAME when one of them is no input.
Model open_model(const std::string& path, const BuildFlags& flags, const std::map<std::string, Dims>& fixed);

// Adds the shapes to `ranges` where the model has such an input and leaves the shape open. Throws INPUT_NAME.
void fix_shapes(const std::string& path, const std::map<std::string, Dims>& fixed,
                std::map<std::string, ShapeRange>& ranges);

// The same with complete build options, from ONNX only.
Model build_model(const std::string& path, const BuildOptions& options);

}  // namespace deepjit::cli
