// What build and tune print of their work.
#pragma once

#include "cli/verb.h"
#include "compiler/build.h"

namespace deepjit::cli {

// Of tuning and planning: what was measured, compiled and reused, the stages, the warnings.
Json report_json(const BuildResult& result);
// The same for people, in lines.
void print_report(const BuildResult& result);

}  // namespace deepjit::cli
