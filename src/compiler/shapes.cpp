#include "compiler/shapes.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>

#include "graph/infer.h"
#include "ops/sequence/sequence.h"
#include "program/ranges.h"

namespace deepjit {

void check_range(const std::string& input, const TensorType& type, const ShapeRange& range) {
  const Shape& shape = type.shape;
  const std::string what = "range of input \"" + input + "\"";
  const int rank = range.min.rank();
  if (is_collection(type.dtype)) {
    throw Error(Code::ARGUMENT, what + ": the input is a " + type.to_string() + ", only tensors have ranges");
  }
  if (range.opt.rank() != rank || range.max.rank() != rank || (shape.ranked() && shape.rank() != rank)) {
    throw Error(Code::ARGUMENT, what + " has rank " + std::to_string(rank) + ", the model says " + type.to_string());
  }
  for (int i = 0; i < rank; ++i) {
    if (range.min[i] < 0 || range.min[i] > range.opt[i] || range.opt[i] > range.max[i]) {
      throw Error(Code::ARGUMENT, what + ", dimension " + std::to_string(i) + ": needs 0 <= min <= opt <= max");
    }
    if (shape.ranked() && shape[i].is_const() && (range.min[i] != shape[i].value() || range.max[i] != range.min[i])) {
      throw Error(Code::ARGUMENT,
                  what + ", dimension " + std::to_string(i) + " is fixed to " + shape[i].to_string() + " by the model");
    }
  }
}

std::vector<RangeSet> range_sets(const RangeSet& first, const std::map<std::string, std::vector<ShapeRange>>& more) {
  std::vector<RangeSet> sets = {first};
  const std::string* counted = nullptr;  // an input that has as many ranges as there are sets
  for (const auto& [name, ranges] : more) {
    if (ranges.empty()) continue;
    if (first.count(name) == 0) throw Error(Code::ARGUMENT, "input \"" + name + "\" has no first range");
    if (counted != nullptr && ranges.size() + 1 != sets.size()) {
      throw Error(Code::ARGUMENT,
                  "input \"" + *counted + "\" has " + std::to_string(sets.size()) + " ranges, \"" + name + "\" has " +
                      std::to_string(ranges.size() + 1),
                  "the k-th ranges of all inputs belong together: give each input one, for all, or as many");
    }
    counted = &name;
    sets.resize(ranges.size() + 1, first);
    for (size_t k = 0; k < ranges.size(); ++k) sets[k + 1][name] = ranges[k];
  }
  return sets;
}

namespace {

Value& input_named(const Graph& graph, const std::string& name) {
  const auto it =
      std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const Value* v) { return v->name == name; });
  if (it != graph.inputs.end()) return **it;
  throw Error(Code::ARGUMENT, "there is a range for \"" + name + "\", but no such input");
}

}  // namespace

void apply_ranges(Graph& graph, const std::vector<RangeSet>& sets) {
  std::map<std::string, Dim> fixed;
  for (const auto& [name, first] : sets.front()) {
    Value& input = input_named(graph, name);
    for (const RangeSet& set : sets) {
      check_range(input.name, input.type, set.at(name));
      if (set.at(name).min.rank() == first.min.rank()) continue;
      throw Error(Code::ARGUMENT, "the ranges of input \"" + name + "\" have different ranks");
    }
    if (!input.type.shape.ranked())
      input.type.shape = Shape(std::vector<Dim>(static_cast<size_t>(first.min.rank()), Dim(-1)));
    for (int i = 0; i < first.min.rank(); ++i) {
      Dim& d = input.type.shape[i];
      if (d == -1) d = graph.fresh_dim();
      const bool one = std::all_of(sets.begin(), sets.end(), [&, n = name](const RangeSet& set) {
        return set.at(n).min[i] == first.min[i] && set.at(n).max[i] == first.min[i];
      });
      if (one && d.is_symbol()) fixed[d.to_string()] = Dim(first.min[i]);
    }
  }
  if (sets.front().empty()) return;
  for (Value* input : graph.inputs) {
    if (!input->type.shape.ranked()) continue;
    for (int i = 0; i < input->type.shape.rank(); ++i) {
      input->type.shape[i] = input->type.shape[i].substitute([&](const std::string& symbol) -> std::optional<Dim> {
        auto it = fixed.find(symbol);
        return it == fixed.end() ? std::nullopt : std::optional<Dim>(it->second);
      });
    }
  }
  infer_types(graph);
}

void set_ranges(Program& program, const std::vector<RangeSet>& sets) {
  program.others.clear();
  const Program plain = program;
  program.others.assign(sets.size() - 1, plain);
  const std::vector<Program*> programs = programs_of(program);
  for (size_t k = 0; k < sets.size(); ++k) {
    for (ProgramInput& input : programs[k]->inputs) {
      const auto it = sets[k].find(input.name);
      input.has_range = it != sets[k].end();
      if (input.has_range) input.range = it->second;
    }
  }
}

namespace {

// Guesses for the unknown dims of one input, by rank: batch first, then space or time.
const std::vector<std::vector<int64_t>>& guesses(int rank) {
  static const std::vector<std::vector<int64_t>> image = {{1, 3, 224, 224}, {1, 3, 48, 320}, {1, 3, 640, 640},
                                                          {1, 1, 32, 32},   {1, 3, 80, 160}, {1, 16, 64, 64}};
  static const std::vector<std::vector<int64_t>> sequence = {{1, 128, 64}, {2, 1, 128}, {1, 100, 80}, {1, 1, 1}};
  static const std::vector<std::vector<int64_t>> flat = {{1, 128}, {1, 512}, {1, 1}};
  static const std::vector<std::vector<int64_t>> vector = {{16}, {1}, {128}};
  static const std::vector<std::vector<int64_t>> other = {{}};
  switch (rank) {
    case 1:
      return vector;
    case 2:
      return flat;
    case 3:
      return sequence;
    case 4:
      return image;
    default:
      return other;
  }
}

// Halves guessed sizes until no input is so large that tuning takes minutes or memory runs out.
void keep_small(const Program& program, InputShapes& shapes) {
  constexpr double kMost = 1 << 22;
  const auto too_large = [](const TensorDesc& desc) {
    double count = 1;
    for (int64_t d : desc.dims) count *= static_cast<double>(d);
    return count > kMost;
  };
  for (bool changed = true; changed && std::any_of(shapes.begin(), shapes.end(), too_large);) {
    changed = false;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ProgramInput& input = program.inputs[i];
      const Shape& shape = program.buffers[static_cast<size_t>(input.buffer)].type.shape;
      for (int k = 0; !input.has_range && k < shapes[i].dims.rank(); ++k) {
        if (shape[k].is_const() || shapes[i].dims[k] < 2) continue;
        shapes[i].dims[k] /= 2;
        changed = true;
      }
    }
  }
}

}  // namespace

std::vector<InputShapes> candidate_shapes(const Program& program, Which which, bool* guessed) {
  constexpr size_t kTrials = 6;
  std::vector<InputShapes> trials;
  *guessed = false;
  for (size_t trial = 0; trial < kTrials; ++trial) {
    InputShapes shapes;
    bool any_guess = false;
    std::map<std::string, int64_t> symbols;
    for (const ProgramInput& input : program.inputs) {
      const TensorType& type = program.buffers[static_cast<size_t>(input.buffer)].type;
      TensorDesc desc{type.dtype, {}};
      if (is_collection(type.dtype)) {
        // Its length is data, and so are its elements' shapes.
      } else if (input.has_range) {
        desc.dims = which == Which::OPT ? input.range.opt : input.range.max;
      } else if (type.shape.ranked()) {
        const auto& list = guesses(type.shape.rank());
        const auto& guess = list[std::min(trial, list.size() - 1)];
        for (int i = 0; i < type.shape.rank(); ++i) {
          const Dim& d = type.shape[i];
          int64_t value = d.is_const()                            ? d.value()
                          : static_cast<size_t>(i) < guess.size() ? guess[static_cast<size_t>(i)]
                                                                  : 1;
          if (!d.is_const()) {
            any_guess = true;
            value = symbols.emplace(d.to_string(), value).first->second;
          }
          desc.dims.push_back(value);
        }
      } else {
        any_guess = true;
      }
      shapes.push_back(desc);
    }
    if (any_guess) keep_small(program, shapes);
    trials.push_back(std::move(shapes));
    *guessed = *guessed || any_guess;
    if (!any_guess) break;
  }
  return trials;
}

namespace {

double bytes_of(const TuneTask& task) {
  double bytes = 0;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const TensorDesc& desc : *list) {
      double count = desc.dtype == DType::UNDEFINED ? 0 : static_cast<double>(dtype_size(desc.dtype));
      for (int64_t d : desc.dims) count *= static_cast<double>(d);
      bytes += count;
    }
  }
  return bytes;
}

TuneTask task_of(const Program& program, const StepShape& shape) {
  TuneTask task{static_cast<int32_t>(shape.step - program.steps.data()), shape.inputs, shape.outputs, {}, {}};
  for (const Tensor* constant : shape.constants) task.constants.push_back(constant ? *constant : Tensor());
  for (const StepShape& inner : shape.body) task.body.push_back(task_of(program, inner));
  return task;
}

// Binds at one trial's shapes. Steps that were reached before a failure, or in branches that fit, count; those that
// `most_bytes` do not hold are left out.
Probe try_shapes(const Program& program, const ProgramInfo& info, const InputShapes& shapes, int threads,
                 double most_bytes) {
  Probe result;
  result.shapes = shapes;
  BindRequest request;
  request.threads = threads;
  request.make_kernels = false;
  for (size_t i = 0; i < shapes.size(); ++i) request.inputs.emplace_back(program.inputs[i].buffer, shapes[i]);
  std::set<int32_t> seen;
  std::string large;
  request.visitor = [&](const Step& step, const StepShape& shape) {
    const auto index = static_cast<int32_t>(&step - program.steps.data());
    if (!seen.insert(index).second) return;
    TuneTask task = task_of(program, shape);
    if (bytes_of(task) > most_bytes) {
      large = "node \"" + step.name + "\" (" + step.op + "): too large to try";
      return;
    }
    result.tasks.push_back(std::move(task));
  };
  try {
    const std::unique_ptr<Binding> binding = bind(info, request);
    result.arena_bytes = binding->arena_bytes;
    result.arena_lower_bound = binding->arena_lower_bound;
  } catch (const Error& e) {
    result.failure = e.message();
  }
  if (result.failure.empty()) result.failure = large;
  return result;
}

}  // namespace

Probe probe(const Program& program, Which which, int threads, bool* guessed) {
  constexpr double kMostGuessed = 256 << 20;  // bytes of one step; whoever needs more says so with a range
  const ProgramInfo info(program);
  std::optional<Probe> best;
  const std::vector<InputShapes> trials = candidate_shapes(program, which, guessed);
  const double most = *guessed ? kMostGuessed : std::numeric_limits<double>::infinity();
  for (const InputShapes& shapes : trials) {
    Probe trial = try_shapes(program, info, shapes, threads, most);
    const bool fits = trial.failure.empty();
    if (best && best->failure.empty() && !fits) continue;
    if (!best || (fits && !best->failure.empty()) || trial.tasks.size() > best->tasks.size()) best = std::move(trial);
  }
  return std::move(*best);
}

std::optional<size_t> count_launches(const Program& program, const InputShapes& shapes, int threads) {
  const ProgramInfo info(program);
  BindRequest request;
  request.threads = threads;
  request.make_kernels = false;
  for (size_t i = 0; i < shapes.size(); ++i) request.inputs.emplace_back(program.inputs[i].buffer, shapes[i]);
  try {
    const std::unique_ptr<Binding> binding = bind(info, request);
    return static_cast<size_t>(std::count_if(binding->steps.begin(), binding->steps.end(),
                                             [](const BoundStep& bound) { return bound.step != nullptr; }));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace deepjit
