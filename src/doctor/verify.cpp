#include "doctor/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/build.h"
#include "doctor/feed.h"

namespace deepjit::doctor {

namespace {

constexpr double kTolerance = 1e-5;

std::shared_ptr<const Engine> built(const std::string& bytes, const Options& options, int level) {
  BuildOptions build_options;
  build_options.level = level;
  build_options.tune = false;
  build_options.model_folder = options.folder;
  BuildResult result = build({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, build_options);
  return std::make_shared<const Engine>(std::move(result.file.program), nullptr);
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
  const auto one = run_once(before, order, first);
  const auto two = run_once(before, order, other);
  std::map<std::string, Tensor> expected;
  for (const auto& [name, tensor] : one) {
    if (tensor.dims().rank() == 0) {
      proof.failure = "output \"" + name + "\" has no batch";
      return;
    }
    expected[name] = stacked(tensor, two.at(name));
  }
  compare(expected, run_once(after, order, both), kTolerance, "two batches at once", proof);
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
          compare(run_once(before, order, inputs), run_once(after, order, inputs), tolerance,
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

}  // namespace deepjit::doctor
