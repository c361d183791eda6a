// The part of a build after lowering: where the program is to run and what can be measured here, which tactics its
// steps take, and what it then needs. It works on programs, whether lowered just now or read from an engine.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/build.h"
#include "compiler/shapes.h"

namespace deepjit {

// In the metadata: the passes that the build left out, "combos, layout_nhwc".
inline constexpr const char* kDisabledKey = "build.disabled";

// What an engine is built for, and what this machine has of it.
struct BuildDevice {
  std::string kind = "cpu";              // cpu, cuda, null
  std::vector<int> architectures;        // of a GPU: those to compile for
  std::shared_ptr<device::Device> here;  // of a GPU: the one to ask and to measure on; nullptr when there is none
  std::string unseen;                    // of a GPU: why nothing is measured; empty when it is

  bool is_gpu() const { return kind != "cpu"; }
};

// On a GPU levels 0 and 1 measure nothing, so that the engine is ready soon: the first choices of the providers are
// taken, those of libraries before the others. Throws Error(ARGUMENT) when the options do not fit the kind of
// device.
BuildDevice find_device(const BuildOptions& options);

// Tells the engine's user what it was built for, and what for tuning it anew must know: metadata "build.*".
void note_device(std::map<std::string, std::string>& metadata, const BuildDevice& device, const BuildOptions& options);

// Chooses and packs the tactics of result.file.program for each of its shape ranges, joins its small kernels, and fills
// in the lockfile, the ledger, the steps on the host, the report and the warnings. Sets metadata "build.host_steps".
// The budget is shared evenly; what one range leaves is the others'.
void tune_program(BuildResult& result, const BuildDevice& device, const BuildOptions& options);

// What a run needs at the largest shapes: the report's arena, metadata "plan.*".
void plan_program(BuildResult& result);

}  // namespace deepjit
