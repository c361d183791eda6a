// Runs the CUDA kernels of models without a GPU: every tactic that the provider offers for every step, at the shapes
// that cases.json names, against the reference; and compiles them all by NVRTC.
//
//   deepjit_cuda_models FOLDER [PART PARTS]
//
// FOLDER holds cases.json, ops.json and the models (tests/gpu/export_cases.py). Several processes can share the cases:
// of PARTS, this is PART, from 0 on.
//
// Prints a line of JSON for each case: its name, the number of kernels, the largest errors, faults. A last line has the
// number of kernels and whether NVRTC was there.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "../cuda_run_util.h"
#include "codegen/expand.h"
#include "compiler/build.h"
#include "compiler/combos.h"
#include "compiler/shapes.h"
#include "import/user_ops/registry.h"
#include "kernels/nvrtc/contract_problem.h"
#include "tune/measure.h"
#include "tune/verify.h"

namespace deepjit {

namespace {

using Json = nlohmann::json;

// One step of a case at one of its shapes, and the kernels offered for it.
struct Work {
  const Program* program = nullptr;
  TuneTask task;
  StepShape shape;
  std::vector<std::string> kernels;
};

struct Case {
  Json row;
  std::deque<Program> programs;  // one for each of its shapes
  std::deque<Work> work;
  Json result;
};

bool reduces(const Program& program, const TuneTask& task) {
  const ExpandRule* rule = find_rule(program.steps[static_cast<size_t>(task.step)].op);
  return (rule != nullptr && rule->reduced != nullptr) ||
         std::any_of(task.body.begin(), task.body.end(), [&](const TuneTask& t) { return reduces(program, t); });
}

Program program_of(const Json& row, const std::string& folder) {
  BuildOptions options;
  options.threads = 1;
  options.tune = false;
  options.level = row.at("level").get<int>();
  options.disabled_passes = {"layout_nhwc"};
  for (const Json& pass : row.at("disable")) options.disabled_passes.insert(pass.get<std::string>());
  return build_file(folder + "/" + row.at("name").get<std::string>() + ".onnx", options).file.program;
}

void set_shapes(Program& program, const Json& dims) {
  for (ProgramInput& input : program.inputs) {
    Dims shape;
    for (const Dim& d : program.buffers[static_cast<size_t>(input.buffer)].type.shape.dims()) {
      shape.push_back(d.is_const() ? d.value() : dims.at(d.to_string()).get<int64_t>());
    }
    input.has_range = true;
    input.range = {shape, shape, shape};
  }
}

void add_work(Case& c, const Program& program, const TuneTask& task, CudaOnCpu& kernels) {
  Work& work = c.work.emplace_back();
  work.program = &program;
  work.task = task;
  work.shape = shape_of(program, work.task, TuneOptions{});
  if (nvrtc_gpu::is_contraction(*work.shape.step)) {  // tested by themselves: contract_test.cpp
    c.work.pop_back();
    return;
  }
  for (Tactic& tactic : nvrtc_offerer().offer(work.shape).tactics) {
    nvrtc_offerer().pack(work.shape, tactic);
    work.kernels.push_back(kernels.add(tactic));
  }
  if (work.kernels.empty()) c.work.pop_back();
}

// The same with kernels that share launches: each kernel is the first that is offered for its region.
void collect_combos(Case& c, const Program& program, const Json& dims, CudaOnCpu& kernels) {
  Program& own = c.programs.emplace_back(program);
  set_shapes(own, dims);
  bool guessed = false;
  const Probe probed = probe(own, Which::OPT, 1, &guessed);
  TuneOptions options;
  options.device = "cuda";
  for (const TuneTask& task : probed.tasks) {
    Step& step = own.steps[static_cast<size_t>(task.step)];
    if (step.op != kRegionOp) continue;
    const StepShape shape = shape_of(own, task, TuneOptions{});
    std::vector<Tactic> offered = nvrtc_offerer().offer(shape).tactics;
    if (offered.empty()) continue;
    nvrtc_offerer().pack(shape, offered.front());
    step.tactic = std::move(offered.front());
  }
  const std::vector<int32_t> made = join_combos(own, probed, options);
  if (made.empty()) {
    c.programs.pop_back();
    return;
  }
  for (const TuneTask& task : probe(own, Which::OPT, 1, &guessed).tasks) {
    if (std::count(made.begin(), made.end(), task.step) != 0) add_work(c, own, task, kernels);
  }
  c.result["combos"] = c.result["combos"].get<size_t>() + made.size();
}

void collect(Case& c, const std::string& folder, CudaOnCpu& kernels) {
  const Program program = program_of(c.row, folder);
  for (const Json& dims : c.row.at("dims")) {
    Program& own = c.programs.emplace_back(program);
    set_shapes(own, dims);
    bool guessed = false;
    const Probe probed = probe(own, Which::OPT, 1, &guessed);
    check_internal(probed.failure.empty(), probed.failure);
    std::set<int32_t> inner;  // the steps of regions do not run by themselves
    for (const TuneTask& task : probed.tasks) {
      for (const TuneTask& step : task.body) inner.insert(step.step);
    }
    for (const TuneTask& task : probed.tasks) {
      if (inner.count(task.step) == 0) add_work(c, own, task, kernels);
    }
    collect_combos(c, program, dims, kernels);
  }
}

void measure(Case& c, const Work& work, const CudaOnCpu& kernels, bool hard) {
  const bool rows = reduces(*work.program, work.task);
  Workbench bench(*work.shape.step, work.task, hard, hard ? 2 : 1, hard && rows);
  bench.run_reference(work.shape);
  double& worst = *c.result[hard ? "special_error" : "error"].get_ptr<double*>();
  for (const std::string& name : work.kernels) {
    std::string fault;
    try {
      const auto kernel = kernels.make(name, work.shape);
      bench.run(*kernel);
      const auto scale = hard ? Workbench::Scale::ELEMENT : Workbench::Scale::OUTPUT;
      const Workbench::Errors errors = bench.errors(scale, tolerance_of);
      if (!errors.pass) fault = fmt::format("{}: error {:.2e}, allowed is {:.1e}", name, errors.wrong, errors.allowed);
      if (fault.empty()) worst = std::max(worst, errors.largest);
    } catch (const Error& e) {
      fault = e.message();
    }
    if (fault.empty()) continue;
    for (const TensorDesc& d : work.shape.inputs) fault += " " + d.dims.to_string();
    c.result["faults"].push_back(fault + (hard ? ", special values" : ""));
    if (c.result["faults"].size() == 1) c.result["text"] = kernels.text(name);
  }
}

int run(const std::string& folder, size_t part, size_t parts) {
  std::ifstream ops(folder + "/ops.json");
  register_user_ops(std::string(std::istreambuf_iterator<char>(ops), {}));
  std::deque<Case> cases;
  CudaOnCpu kernels;
  std::ifstream in(folder + "/cases.json");
  const Json table = Json::parse(in);
  size_t number = 0;
  for (const Json& row : table.at("cases")) {
    if (!row.at("ranges").empty()) continue;  // the same kernels again
    if (number++ % parts != part) continue;
    Case& c = cases.emplace_back();
    c.row = row;
    c.result = {{"name", row.at("name")}, {"kernels", 0},         {"combos", 0},
                {"error", 0.0},           {"special_error", 0.0}, {"faults", Json::array()}};
    try {
      collect(c, folder, kernels);
    } catch (const Error& e) {
      c.result["faults"].push_back(std::string("not collected: ") + e.what());
    }
  }
  kernels.compile();
  std::set<std::string> likeliest;  // for NVRTC: combos, and the first kernel offered for each step at the first shapes
  for (Case& c : cases) {
    for (const Work& work : c.work) {
      const bool combo = work.kernels.front().rfind("combo", 0) == 0;
      if (combo || work.program == &c.programs.front()) likeliest.insert(work.kernels.front());
    }
    std::set<std::string> names;
    for (const Work& work : c.work) {
      names.insert(work.kernels.begin(), work.kernels.end());
      measure(c, work, kernels, false);
      if (c.row.at("hard").get<bool>()) measure(c, work, kernels, true);
    }
    c.result["kernels"] = names.size();
    std::cout << c.result.dump() << std::endl;
  }
  std::set<std::string> others;  // their text differs from the likeliest's in numbers only: one architecture will do
  for (const std::string& name : kernels.names()) {
    if (likeliest.count(name) == 0) others.insert(name);
  }
  const bool compiled = kernels.check_by_nvrtc(likeliest) && (others.empty() || kernels.check_by_nvrtc(others, {75}));
  std::cout << Json{{"all", kernels.names().size()}, {"nvrtc", compiled}}.dump() << std::endl;
  return 0;
}

}  // namespace

}  // namespace deepjit

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fputs("deepjit_cuda_models FOLDER [PART PARTS]\n", stderr);
    return 2;
  }
  try {
    return argc == 2 ? deepjit::run(argv[1], 0, 1) : deepjit::run(argv[1], std::stoul(argv[2]), std::stoul(argv[3]));
  } catch (const deepjit::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
