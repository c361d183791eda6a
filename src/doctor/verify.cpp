#include "doctor/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "compiler/build.h"
#include "compiler/shapes.h"
#include "runtime/engine.h"

namespace deepjit::doctor {

namespace {

constexpr double kTolerance = 1e-5;

std::span<const uint8_t> span_of(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

BuildOptions build_options(const Options& options, int level) {
  BuildOptions build;
  build.level = level;
  build.tune = false;
  build.model_folder = options.folder;
  return build;
}

std::shared_ptr<const Engine> built(const std::string& bytes, const Options& options, int level) {
  BuildResult result = build(span_of(bytes), build_options(options, level));
  return std::make_shared<const Engine>(std::move(result.file.program), nullptr);
}

// One way to feed the model: shapes, and the number that integers of one element get.
struct Trial {
  InputShapes shapes;
  std::optional<int64_t> number;  // nothing: 0 or 1, at random
};

// The traffic's shapes in place of the guesses, and the sizes that follow from them.
void take_traffic(const Program& program, const std::map<std::string, Dims>& entry, InputShapes& shapes) {
  std::map<std::string, int64_t> sizes;
  const auto type_of = [&](size_t i) -> const Shape& {
    return program.buffers[static_cast<size_t>(program.inputs[i].buffer)].type.shape;
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto found = entry.find(program.inputs[i].name);
    if (found == entry.end()) continue;
    shapes[i].dims = found->second;
    for (int k = 0; type_of(i).ranked() && k < std::min(type_of(i).rank(), found->second.rank()); ++k) {
      sizes.emplace(type_of(i)[k].to_string(), found->second[k]);
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (entry.count(program.inputs[i].name) != 0 || !type_of(i).ranked()) continue;
    for (int k = 0; k < shapes[i].dims.rank(); ++k) {
      const auto found = sizes.find(type_of(i)[k].to_string());
      if (!type_of(i)[k].is_const() && found != sizes.end()) shapes[i].dims[k] = found->second;
    }
  }
}

// An integer of one element is often a choice (a sampling rate, a mode) that the model compares with its constants.
std::vector<std::optional<int64_t>> numbers_to_try(const Program& program, const InputShapes& shapes) {
  std::vector<std::optional<int64_t>> numbers = {std::nullopt};
  const bool any = std::any_of(shapes.begin(), shapes.end(),
                               [](const TensorDesc& d) { return is_integer(d.dtype) && d.count() == 1; });
  for (const Buffer& buffer : program.buffers) {
    const Tensor& t = buffer.constant;
    if (!any || !buffer.is_constant || !t.defined() || t.dtype() != DType::INT64 || t.count() != 1) continue;
    const std::optional<int64_t> value = t.to_i64()[0];
    if (*value > 1 && numbers.size() < 16 && std::find(numbers.begin(), numbers.end(), value) == numbers.end()) {
      numbers.push_back(value);
    }
  }
  return numbers;
}

std::vector<Trial> trials_for(const Program& program, const Options& options) {
  bool guessed = false;
  std::vector<InputShapes> shapes = candidate_shapes(program, Which::OPT, &guessed);
  std::vector<InputShapes> all;
  for (const auto& entry : options.traffic) {
    for (InputShapes one : shapes) {
      take_traffic(program, entry, one);
      all.push_back(one);
    }
  }
  all.insert(all.end(), shapes.begin(), shapes.end());
  std::vector<Trial> trials;
  for (const InputShapes& one : all) {
    for (const auto& number : numbers_to_try(program, one)) trials.push_back({one, number});
  }
  return trials;
}

Tensor random_tensor(const TensorDesc& desc, const std::optional<int64_t>& number, std::mt19937& random) {
  Tensor t(desc.dtype, desc.dims);
  std::normal_distribution<float> normal(0, 1);
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (desc.dtype) {
      case DType::FLOAT32:
        t.as<float>()[i] = normal(random);
        break;
      case DType::FLOAT64:
        t.as<double>()[i] = static_cast<double>(normal(random));
        break;
      case DType::FLOAT16:
        t.as<float16>()[i] = float16(normal(random));
        break;
      case DType::BFLOAT16:
        t.as<bfloat16>()[i] = bfloat16(normal(random));
        break;
      default: {
        if (is_object(desc.dtype) || (is_float(desc.dtype) && dtype_size(desc.dtype) < 2)) {
          throw Error(Code::TYPE, "inputs of " + std::string(dtype_name(desc.dtype)) + " cannot be made up");
        }
        // 0 and 1 are an index, a token or a mask anywhere.
        uint64_t value = random() % 2;
        if (number && t.count() == 1 && desc.dtype != DType::BOOL) value = static_cast<uint64_t>(*number);
        const size_t size = dtype_size(desc.dtype);
        std::memcpy(t.as<char>() + static_cast<size_t>(i) * size, &value, size);
      }
    }
  }
  return t;
}

std::vector<Tensor> make_inputs(const Program& program, const Trial& trial, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < trial.shapes.size(); ++i) {
    // One with a default keeps it.
    const bool fed = !program.inputs[i].default_value.defined();
    inputs.push_back(fed ? random_tensor(trial.shapes[i], trial.number, random) : Tensor());
  }
  return inputs;
}

std::map<std::string, Tensor> run(const std::shared_ptr<const Engine>& engine, const Program& order,
                                  const std::vector<Tensor>& inputs) {
  const Program& program = engine->program();
  std::vector<TensorView> views;
  for (const ProgramInput& wanted : program.inputs) {
    TensorView view;
    for (size_t i = 0; i < order.inputs.size(); ++i) {
      if (order.inputs[i].name == wanted.name) view = inputs[i].view();
    }
    views.push_back(view);
  }
  Context context(engine);
  std::vector<TensorView> results;
  context.run(views, results);
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor copy(results[i].dtype, results[i].dims);
    if (is_object(copy.dtype())) throw Error(Code::TYPE, "outputs that are no numbers cannot be compared");
    if (copy.bytes() > 0) std::memcpy(copy.as<char>(), results[i].data, static_cast<size_t>(copy.bytes()));
    out[program.outputs[i].name] = std::move(copy);
  }
  return out;
}

// The largest difference relative to the largest magnitude; infinite where they cannot be compared.
double difference(const Tensor& a, const Tensor& b) {
  if (a.same_as(b)) return 0;
  const bool numbers = a.dtype() == DType::FLOAT32 || a.dtype() == DType::FLOAT64 || a.dtype() == DType::FLOAT16 ||
                       a.dtype() == DType::BFLOAT16;
  if (a.dtype() != b.dtype() || !(a.dims() == b.dims()) || !numbers) return INFINITY;
  const std::vector<double> x = a.to_f64();
  const std::vector<double> y = b.to_f64();
  double scale = 1e-30;
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) {
      if (std::isfinite(x[i])) scale = std::max(scale, std::abs(x[i]));
      continue;
    }
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return INFINITY;
    scale = std::max({scale, std::abs(x[i]), std::abs(y[i])});
    worst = std::max(worst, std::abs(x[i] - y[i]));
  }
  return worst / scale;
}

// Compares all outputs; adds what it found to the proof.
void compare(const std::map<std::string, Tensor>& before, const std::map<std::string, Tensor>& after, double tolerance,
             const std::string& how, Proof& proof) {
  double worst = 0;
  for (const auto& [name, expected] : before) {
    const auto found = after.find(name);
    const double error = found == after.end() ? INFINITY : difference(expected, found->second);
    worst = std::max(worst, error);
    if (error <= tolerance) continue;
    proof.failure = fmt::format("output \"{}\" differs by {:.2e} ({})", name, error, how);
    return;
  }
  proof.steps.push_back(worst == 0 ? how + ": the same bits" : fmt::format("{}: equal within {:.1e}", how, worst));
}

Tensor stacked(const Tensor& a, const Tensor& b) {
  Dims dims = a.dims();
  dims[0] *= 2;
  Tensor out(a.dtype(), dims);
  std::memcpy(out.as<char>(), a.as<char>(), static_cast<size_t>(a.bytes()));
  std::memcpy(out.as<char>() + a.bytes(), b.as<char>(), static_cast<size_t>(b.bytes()));
  return out;
}

// Ways to feed the model that it runs with, one for each number that works. Throws what went wrong when there is none.
std::vector<Trial> working_trials(const std::shared_ptr<const Engine>& engine, const Options& options) {
  constexpr size_t kMost = 4;
  const Program& program = engine->program();
  std::vector<Trial> working;
  std::optional<Error> failure;
  for (const Trial& trial : trials_for(program, options)) {
    const bool known =
        std::any_of(working.begin(), working.end(), [&](const Trial& t) { return t.number == trial.number; });
    if (known || working.size() == kMost) continue;
    try {
      run(engine, program, make_inputs(program, trial, 1));
      working.push_back(trial);
    } catch (const Error& e) {
      if (!failure) failure = e;
    }
  }
  if (!working.empty()) return working;
  if (!failure) failure = Error(Code::ARGUMENT, "no shapes to try it with");
  throw failure->with_prefix("the exported model runs on no made-up inputs, --traffic may help: ");
}

std::string trial_text(const Program& program, const Trial& trial) {
  std::string text;
  for (size_t i = 0; i < trial.shapes.size(); ++i) {
    text += (i ? ", " : "") + program.inputs[i].name + "=" + trial.shapes[i].dims.to_string();
    const bool chosen = trial.number && is_integer(trial.shapes[i].dtype) && trial.shapes[i].count() == 1;
    if (chosen) text += " of " + std::to_string(*trial.number);
  }
  return text;
}

// Two batches fed as one must give what each gives alone.
void prove_free_batch(const ProofRequest& request, const Options& options, const Trial& trial, Proof& proof) {
  const auto before = built(request.before, options, 0);
  const auto after = built(request.after, options, 0);
  const Program& order = before->program();
  const std::vector<Tensor> first = make_inputs(order, trial, 11);
  const std::vector<Tensor> second = make_inputs(order, trial, 12);
  std::vector<Tensor> both;
  for (size_t i = 0; i < first.size(); ++i) {
    const bool batched = first[i].defined() && first[i].dims().rank() >= 2;
    both.push_back(batched ? stacked(first[i], second[i]) : first[i]);
  }
  std::vector<Tensor> other = second;
  for (size_t i = 0; i < other.size(); ++i) {
    if (both[i].defined() && both[i].dims() == first[i].dims()) other[i] = first[i];
  }
  const auto one = run(before, order, first);
  const auto two = run(before, order, other);
  std::map<std::string, Tensor> expected;
  for (const auto& [name, tensor] : one) {
    if (tensor.dims().rank() == 0) {
      proof.failure = "output \"" + name + "\" has no batch";
      return;
    }
    expected[name] = stacked(tensor, two.at(name));
  }
  compare(expected, run(after, order, both), kTolerance, "two batches at once", proof);
}

}  // namespace

Proof prove_equal(const ProofRequest& request, const Options& options) {
  Proof proof;
  try {
    const auto before = built(request.before, options, 0);
    const Program& order = before->program();
    const std::vector<Trial> trials = working_trials(before, options);
    for (int level : {0, 3}) {
      const auto after = built(request.after, options, level);
      const double tolerance = request.exact && level == 0 ? 0 : kTolerance;
      for (const Trial& trial : trials) {
        for (uint32_t seed : {1u, 2u}) {
          if (!proof.failure.empty()) return proof;
          const std::vector<Tensor> inputs = make_inputs(order, trial, seed);
          compare(run(before, order, inputs), run(after, order, inputs), tolerance,
                  fmt::format("{}, seed {}, mended model at -O{}", trial_text(order, trial), seed, level), proof);
        }
      }
    }
    if (request.freed_batch && proof.failure.empty()) prove_free_batch(request, options, trials.front(), proof);
  } catch (const Error& e) {
    proof.failure = fmt::format("E{} {}: {}", static_cast<int>(e.code()), code_name(e.code()), e.message());
  }
  return proof;
}

std::map<std::string, double> measure_nodes(std::span<const uint8_t> model, const Options& options) {
  BuildOptions build_with = build_options(options, 0);
  build_with.tune = true;
  build_with.budget_s = 60;
  for (const auto& entry : options.traffic) {
    for (const auto& [name, dims] : entry) build_with.ranges.try_emplace(name, ShapeRange{dims, dims, dims});
  }
  const BuildResult result = build(model, build_with);
  const Program& program = result.file.program;
  std::map<std::string, double> times;
  for (const Step& step : program.steps) {
    for (int32_t b : step.outputs) {
      if (b >= 0) times[program.buffers[static_cast<size_t>(b)].name] = step.tactic.time_us;
    }
  }
  return times;
}

}  // namespace deepjit::doctor
