// deepjit inspect: what is in an engine or would be in one: inputs, graph, steps, memory plan.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/text.h"
#include "cli/verb.h"
#include "cli/why.h"
#include "ops/sequence/sequence.h"
#include "program/precision_notes.h"
#include "program/ranges.h"
#include "program/user_ops.h"
#include "runtime/observer.h"

namespace deepjit::cli {

namespace {

struct InspectVerb {
  std::string model;
  std::vector<std::string> shapes;
  bool graph = false;
  bool steps = false;
  bool plan = false;
  bool why = false;
  bool time = false;
  int iterations = 20;
  bool json = false;
  BuildFlags flags;

  int run();

 private:
  void print_overview(const Model& loaded, const std::map<std::string, Dims>& fixed) const;
  void print_json_of(const Model& loaded, const std::map<std::string, Dims>& fixed) const;
  MemoryText plan_at(const Model& loaded, const std::map<std::string, Dims>& fixed) const;
};

struct StepTime {
  const Step* step = nullptr;
  double us = 0;
  size_t runs = 0;
};

struct Collector : StepTimer {
  std::map<const Step*, StepTime> times;
  void on_step(const Step& step, double us) override {
    StepTime& t = times[&step];
    t.step = &step;
    t.us += us;
    ++t.runs;
  }
};

// What the model runs at these shapes; without any, its first range.
const Program& program_of(const Model& model, const std::map<std::string, Dims>& fixed) {
  if (fixed.empty()) return model.program();
  const Program* at = program_at(model.program(), told_shapes(model.program(), fixed));
  return at == nullptr ? model.program() : *at;
}

struct Times {
  const Program* program = nullptr;  // of the range that ran
  std::vector<StepTime> steps;
};

// Time of each step in microseconds a run, slowest first.
Times measure_steps(const Model& model, const std::map<std::string, Dims>& fixed, int threads, int iterations) {
  const std::vector<Tensor> fed = make_inputs(model.program(), {}, fixed, true);
  const std::vector<TensorView> views = views_of(fed);
  std::vector<TensorView> outputs;
  Context context(model.engine, threads);
  for (int i = 0; i < 3; ++i) context.run(views, outputs);
  Collector collector;
  context.set_observer(&collector);
  for (int i = 0; i < iterations; ++i) context.run(views, outputs);
  Times times;
  times.program = &model.engine->program_for(views);
  for (const auto& [step, t] : collector.times) times.steps.push_back({t.step, t.us / iterations, t.runs});
  std::sort(times.steps.begin(), times.steps.end(),
            [](const StepTime& a, const StepTime& b) { return a.us != b.us ? a.us > b.us : a.step < b.step; });
  return times;
}

// Of the entry's steps: the steps of bodies are part of their If, Loop or Scan.
double total_us(const Program& program, const std::vector<StepTime>& times) {
  double total = 0;
  for (const StepTime& t : times) {
    const auto index = static_cast<int32_t>(t.step - program.steps.data());
    const std::vector<int32_t>& entry = program.blocks.at(0).steps;
    if (std::find(entry.begin(), entry.end(), index) != entry.end()) total += t.us;
  }
  return total;
}

void print_times(const Times& times) {
  const Program& program = *times.program;
  const double total = total_us(program, times.steps);
  const size_t width = tactic_width(program);
  const HowItRuns how(program);
  const UserOpNames users(program);
  fmt::print("{:>5}  {:>10} {:>6}  {:<20} {:<{}} {}\n", "step", "time", "share", "op", "tactic", width, "name");
  for (const StepTime& t : times.steps) {
    fmt::print("{:>5}  {:>10} {:>5.1f}%  {:<20} {:<{}} {}\n", t.step - program.steps.data(), time_text(t.us),
               total > 0 ? 100 * t.us / total : 0, t.step->op,
               how.text(static_cast<size_t>(t.step - program.steps.data())), width, t.step->name + users.text(*t.step));
  }
  fmt::print("total {}\n", time_text(total));
}

// Steps that one run launches, those in bodies of If, Loop and Scan left out; null when no shapes were found to count
// at.
Json launches_of(const Program& program) {
  const auto launches = program.metadata.find("plan.launches");
  return launches == program.metadata.end() ? Json(nullptr) : Json(std::stoll(launches->second));
}

// At these shapes, else the largest of the program's range, else guesses.
std::vector<TensorDesc> largest_descs(const Program& program, const std::map<std::string, Dims>& fixed) {
  std::map<std::string, Dims> largest = fixed;
  for (const ProgramInput& input : program.inputs) {
    if (input.has_range) largest.emplace(input.name, input.range.max);
  }
  return input_descs(program, largest);
}

// Nothing where the shapes do not fit, or only data tells.
std::optional<MemoryNeeds> memory_of(const Model& loaded, const std::map<std::string, Dims>& fixed, int threads) {
  std::optional<MemoryNeeds> most;
  try {
    for (const Program* own : programs_at(loaded.program(), told_shapes(loaded.program(), fixed))) {
      std::vector<TensorView> views;
      for (const TensorDesc& desc : largest_descs(*own, fixed)) {
        views.push_back({desc.dtype, is_collection(desc.dtype) ? Dims{0} : desc.dims, nullptr});
      }
      const MemoryNeeds needs = memory_needs(*loaded.engine, views, threads);
      if (!most || needs.total() > most->total()) most = needs;
    }
    return most;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Json io_json(const Program& program) {
  Json inputs = Json::array();
  for (const ProgramInput& input : program.inputs) {
    Json one = {{"name", input.name},
                {"type", type_text(program, input.buffer)},
                {"has_default", input.default_value.defined()},
                {"range", nullptr}};
    if (input.has_range) one["range"] = range_json(input.range);
    inputs.push_back(one);
  }
  Json outputs = Json::array();
  for (const ProgramOutput& output : program.outputs) {
    outputs.push_back({{"name", output.name}, {"type", type_text(program, output.buffer)}});
  }
  return {{"inputs", inputs}, {"outputs", outputs}};
}

MemoryText InspectVerb::plan_at(const Model& loaded, const std::map<std::string, Dims>& fixed) const {
  const Program& largest = largest_at(loaded.program(), told_shapes(loaded.program(), fixed));
  const std::vector<TensorDesc> descs = largest_descs(largest, fixed);
  std::vector<TensorView> views;
  for (const TensorDesc& desc : descs) views.push_back({desc.dtype, desc.dims, nullptr});
  return plan_of(loaded.engine->program_for(views), descs, flags.threads);
}

void InspectVerb::print_json_of(const Model& loaded, const std::map<std::string, Dims>& fixed) const {
  const Program& program = program_of(loaded, fixed);
  Json object = {{"model", model}, {"kind", loaded.built ? "onnx" : "engine"}};
  const Json io = io_json(program);
  object["inputs"] = io["inputs"];
  object["outputs"] = io["outputs"];
  object["metadata"] = program.metadata;
  object["threads"] = program.threads;
  object["constant_bytes"] = loaded.constant_bytes;
  object["tactics"] = steps_by_provider(program);
  object["steps"] = steps_json(program);
  object["ranges"] = ranges_json(loaded.program());
  object["ledger"] = why_json(program);
  object["launches"] = launches_of(program);
  object["graph"] = graph ? Json(loaded.graph_text) : Json(nullptr);
  const auto needs = memory_of(loaded, fixed, flags.threads);
  object["memory"] = needs ? memory_json(*needs) : Json(nullptr);
  object["plan"] = plan ? plan_json(plan_at(loaded, fixed)) : Json(nullptr);
  object["times"] = nullptr;
  if (time) {
    const Times measured = measure_steps(loaded, fixed, flags.threads, iterations);
    const UserOpNames users(*measured.program);
    Json times = Json::array();
    for (const StepTime& t : measured.steps) {
      times.push_back({{"step", t.step - measured.program->steps.data()},
                       {"name", t.step->name},
                       {"us", t.us},
                       {"user_ops", users.of(*t.step)}});
    }
    object["times"] = times;
  }
  print_json(object);
}

void InspectVerb::print_overview(const Model& loaded, const std::map<std::string, Dims>& fixed) const {
  const Program& program = program_of(loaded, fixed);
  const bool several = !loaded.program().others.empty();
  for (const ProgramInput& input : program.inputs) {
    std::string range;
    if (input.has_range && !several) {
      range = fmt::format("  range {}:{}:{}", shape_text(input.range.min), shape_text(input.range.opt),
                          shape_text(input.range.max));
    }
    fmt::print("input    {}: {}{}{}\n", input.name, type_text(program, input.buffer), range,
               input.default_value.defined() ? "  (has a default)" : "");
  }
  for (const ProgramOutput& output : program.outputs) {
    fmt::print("output   {}: {}\n", output.name, type_text(program, output.buffer));
  }
  for (const Program* own : programs_of(loaded.program())) {
    if (several) fmt::print("range    {}\n", which_range(loaded.program(), *own));
  }
  const std::map<std::string, int> counts = steps_by_provider(program);
  int total = 0;
  for (const auto& [provider, count] : counts) total += count;
  fmt::print("steps    {} ({})\n", total, counts_text(counts));
  fmt::print("weights  {}\n", bytes_text(static_cast<double>(loaded.constant_bytes)));
  const Program& largest = largest_at(loaded.program(), told_shapes(loaded.program(), fixed));
  if (const Json launches = launches_of(largest); !launches.is_null()) {
    const bool bodies = std::any_of(program.steps.begin(), program.steps.end(), is_control);
    fmt::print("launches {} a run at the largest shapes{}, {} edges between kernels (--why)\n", launches.get<int64_t>(),
               bodies ? " and those in bodies" : "", largest.ledger.size());
  }
  if (const auto arena = largest.metadata.find("plan.arena_bytes"); arena != largest.metadata.end()) {
    fmt::print("arena    {}, lower bound {}\n", bytes_text(std::stod(arena->second)),
               bytes_text(std::stod(largest.metadata.at("plan.lower_bound"))));
  }
  if (const auto needs = memory_of(loaded, fixed, flags.threads)) {
    fmt::print("memory   {}\n", memory_text(*needs));
  }
  fmt::print("threads  {}\n", program.threads);
  for (const auto& [key, value] : program.metadata) {
    const bool told_elsewhere =
        key.rfind("plan.", 0) == 0 || key.rfind(kUserOpNodesKey, 0) == 0 || key.rfind(kPrecisionKey, 0) == 0;
    if (!told_elsewhere) fmt::print("{} = {}\n", key, value);
  }
}

int InspectVerb::run() {
  // Nothing but the graph and the plan can do without measuring.
  if (graph && !steps && !time && !json) flags.no_tune = true;
  const std::map<std::string, Dims> fixed = parse_shapes(shapes);
  const Model loaded = open_model(model, flags, {});
  std::vector<std::string> names;
  for (const ProgramInput& input : loaded.program().inputs) names.push_back(input.name);
  check_input_names(names, {}, fixed);
  if (json) {
    print_json_of(loaded, fixed);
    return 0;
  }
  const bool everything = !graph && !steps && !plan && !time && !why;
  if (everything) print_overview(loaded, fixed);
  if (graph) fmt::print("{}\n", loaded.graph_text);
  const Program& program = program_of(loaded, fixed);
  if (steps || everything) fmt::print("{}", fixed.empty() ? steps_of_ranges(program) : steps_text(program));
  if (why) fmt::print("{}", why_text(program));
  if (plan) fmt::print("{}", plan_text(plan_at(loaded, fixed)));
  if (time) print_times(measure_steps(loaded, fixed, flags.threads, iterations));
  return 0;
}

}  // namespace

Verb add_inspect(CLI::App& app) {
  auto verb = std::make_shared<InspectVerb>();
  CLI::App* command = app.add_subcommand("inspect", "show the graph, steps, tactics and memory plan");
  command->add_option("model", verb->model, "the engine or the ONNX model")->required()->option_text("M.dje|M.onnx");
  command->add_flag("--graph", verb->graph, "the graph before and after the passes");
  command->add_flag("--steps", verb->steps, "each step with its tactic, time and error at build");
  command->add_flag("--why", verb->why,
                    "each edge between two kernels: the rule that keeps it, its cost, what lifts it");
  command->add_flag("--plan", verb->plan, "where each value lies in memory");
  command->add_flag("--time", verb->time, "run on random data and time each step");
  command->add_option("--iterations", verb->iterations, "runs for --time [default: 20]")
      ->option_text("N")
      ->check(CLI::Range(1, 1'000'000));
  command
      ->add_option("--shapes", verb->shapes,
                   std::string(kShapesDoc) + "; picks the range to show, for --plan and --time the shapes")
      ->option_text("NAME=SHAPE")
      ->allow_extra_args(false);
  command->add_flag("--json", verb->json, "print one JSON object on stdout");
  verb->flags.add_to(*command);
  command->footer(
      "Without --graph, --steps, --why, --plan or --time: an overview and the steps.\n"
      "Example: deepjit inspect m.dje --steps");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
