#include "cli/build_report.h"

#include <fmt/format.h>

#include "cli/text.h"
#include "program/ranges.h"

namespace deepjit::cli {

Json report_json(const BuildResult& result) {
  const BuildReport& r = result.report;
  Json stages = Json::object();
  for (const StageTime& stage : r.stages) stages[stage.stage] = stage.seconds;
  return {{"ranges", 1 + result.file.program.others.size()},
          {"steps", result.file.program.steps.size()},
          {"tactics", steps_by_provider(result.file.program)},
          {"measured", r.tuning.measured},
          {"reused", r.tuning.reused},
          {"out_of_budget", r.tuning.out_of_budget},
          {"kernels_compiled", r.tuning.kernels_compiled},
          {"kernels_loaded", r.tuning.kernels_loaded},
          {"compile_s", r.tuning.compile_s},
          {"tuning", {{"flagged", r.tuning.flagged}, {"suspicious", r.tuning.suspicious}}},
          {"arena_bytes", r.arena_bytes},
          {"arena_lower_bound", r.arena_lower_bound},
          {"stages_s", stages},
          {"build_s", r.seconds},
          {"warnings", r.warnings}};
}

void print_report(const BuildResult& result) {
  const BuildReport& r = result.report;
  const Program& program = result.file.program;
  for (const Program* own : programs_of(program)) {
    if (!program.others.empty()) fmt::print("range    {}\n", which_range(program, *own));
  }
  fmt::print("steps    {} ({})\n", program.steps.size(), counts_text(steps_by_provider(program)));
  fmt::print("tuning   {} measured, {} reused, {} out of budget\n", r.tuning.measured, r.tuning.reused,
             r.tuning.out_of_budget);
  fmt::print("kernels  {} compiled in {:.2f} s, {} from the cache\n", r.tuning.kernels_compiled, r.tuning.compile_s,
             r.tuning.kernels_loaded);
  if (!r.tuning.flagged.empty()) {
    fmt::print(
        "flagged  {} kinds of steps below 30% of what the GPU's memory and arithmetic allow (--json lists them)\n",
        r.tuning.flagged.size());
  }
  for (const std::string& line : r.tuning.suspicious) fmt::print("suspicious  {}\n", line);
  fmt::print("arena    {}, lower bound {}\n", bytes_text(static_cast<double>(r.arena_bytes)),
             bytes_text(static_cast<double>(r.arena_lower_bound)));
  std::string stages;
  for (const StageTime& stage : r.stages) stages += fmt::format(", {} {:.2f} s", stage.stage, stage.seconds);
  fmt::print("time     {:.2f} s{}\n", r.seconds, stages);
}

}  // namespace deepjit::cli
