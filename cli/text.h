// Texts about a program that several verbs print: steps with their tactics, the memory plan, sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "cli/verb.h"
#include "program/program.h"
#include "runtime/memory_use.h"

namespace deepjit::cli {

std::string bytes_text(double bytes);  // "1.5 MiB"
std::string time_text(double us);      // "12.3 us", "4.56 ms"

bool is_control(const Step& step);  // If, Loop, Scan
// How many of the steps that are launched each provider runs.
std::map<std::string, int> steps_by_provider(const Program& program);
std::string counts_text(const std::map<std::string, int>& counts);  // "onednn 12, reference 3"

// "onednn:jit", or the provider alone.
std::string tactic_name(const Tactic& tactic);
size_t tactic_width(const Program& program);  // for a column of tactic names
// One line a step: number, op, name, type of the first output, tactic, time and error at build. `like`: leaves out the
// steps that run as those of that program do.
std::string steps_text(const Program& program, const Program* like = nullptr);
// The same for all shape ranges: all steps of the first, and what differs from it in the others.
std::string steps_of_ranges(const Program& program);
Json steps_json(const Program& program);

// Where each intermediate value lies in the arena at these input shapes.
struct Placement {
  std::string value;
  TensorDesc desc;
  size_t offset = 0;
};
struct MemoryText {
  std::vector<Placement> placements;  // by offset
  size_t arena_bytes = 0;
  size_t lower_bound = 0;
  size_t scratch_bytes = 0;
  size_t aliases = 0;  // values that share another's memory
};
MemoryText plan_of(const Program& program, const std::vector<TensorDesc>& inputs, int threads);
std::string plan_text(const MemoryText& plan);
Json plan_json(const MemoryText& plan);

// "x=1x3x224x224:8x3x224x224:32x3x224x224 n=1:1:9" as --range takes it; "any shape".
std::string range_option(const Program& program);
// "2 of 3: x=..." where the engine has several; `own` is one of its programs.
std::string which_range(const Program& program, const Program& own);
Json range_json(const ShapeRange& range);
// Each range: its bounds by input, and its steps. null where there is but one.
Json ranges_json(const Program& program);

// What an engine and one context of it take.
std::string memory_text(const MemoryNeeds& needs);
Json memory_json(const MemoryNeeds& needs);

// The whole program: inputs, blocks, steps with operands, outputs.
std::string program_text(const Program& program);

std::string type_text(const Program& program, int32_t buffer);  // "float32[N,3]", "-" for an omitted operand

}  // namespace deepjit::cli
