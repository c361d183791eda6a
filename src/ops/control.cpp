// If, Loop, Scan and fused regions: arity only. The compiler types their subgraphs and the runtime runs them.
#include "ops/op.h"

namespace deepjit {

void add_control_ops(OpRegistry& registry) {
  for (const char* name : {"If", "Loop", "Scan", "deepjit.Region"}) {
    registry.add({.name = name,
                  .min_inputs = 0,
                  .max_inputs = kMany,
                  .min_outputs = 0,
                  .max_outputs = kMany,
                  .infer = {},
                  .evaluate = {}});
  }
}

}  // namespace deepjit
