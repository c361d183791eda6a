// The why-ledger of a program for people and programs: each edge between two kernels, its rule, cost and lift.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"
#include "program/program.h"

namespace deepjit::cli {

std::string why_text(const Program& program);
Json why_json(const Program& program);

// How the steps of a program run.
class HowItRuns {
 public:
  explicit HowItRuns(const Program& program);
  // Its tactic, "control flow", "step by step: RULE" for a region that no kernel runs (without a rule where that has no
  // edge to cost anything), or "in step 7", its region.
  std::string text(size_t step) const;
  // The rule that keeps a region step by step, or "".
  std::string why_step_by_step(size_t step) const;
  // Runs as itself: neither inside a region's kernel nor a region that is its steps.
  bool launches(size_t step) const;

 private:
  bool is_step_by_step(size_t step) const;
  const Program& program_;
  std::vector<int32_t> region_;     // of each step, or -1
  std::vector<const char*> rules_;  // of each region: the ledger's rule for the edges inside
};

}  // namespace deepjit::cli
