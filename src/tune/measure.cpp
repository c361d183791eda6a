#include "tune/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/visit.h"
#include "kernels/reference/launch_region.h"
#include "program/combo.h"
#include "tune/part_reference.h"
#include "tune/wide_region.h"

namespace deepjit {

namespace {

// Zeros, subnormals, the ends of exp, extremes. They come often, so many values are equal.
constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, -1e-40, 88.0, -88.0, 1e30, -1e30, 3.4e38};
// Ties of rounding, a subnormal and the largest of float16.
constexpr double kMild[] = {2.5, -1.5, 1e-7, 65504};

// What scales rows stays within 1. A difference in a row may be 0 or the last digit of its terms, as its sum was
// rounded: times a large number or infinity these are far apart.
constexpr double kMostOfScales = 1;

// How an operand is drawn.
struct Draw {
  bool adversarial = false;
  bool rows = false;    // the step goes over rows
  bool scales = false;  // and this operand scales them
};

// Of extremes of both signs a sum keeps whatever the order of its terms leaves.
double in_rows(double value) { return value == 1e30 ? -1e30 : value; }

// Random numbers take long to draw: a large tensor repeats some, at a distance that no size divides.
constexpr int64_t kMostDrawn = 1048573;

void repeat_elements(const Tensor& t, int64_t drawn) {
  const int64_t size = t.count() == 0 ? 0 : t.bytes() / t.count();
  for (int64_t at = drawn; at < t.count(); at += drawn) {
    std::memcpy(t.as<char>() + at * size, t.view().data, static_cast<size_t>(std::min(drawn, t.count() - at) * size));
  }
}

Tensor make_input(const TensorDesc& desc, const Draw& draw, std::mt19937_64& random) {
  Tensor t(desc.dtype, desc.dims);
  const int64_t n = std::min(desc.count(), kMostDrawn);
  std::normal_distribution<float> normal;
  if (desc.dtype == DType::FLOAT32 || desc.dtype == DType::FLOAT64 || desc.dtype == DType::FLOAT16 ||
      desc.dtype == DType::BFLOAT16) {
    visit_float(desc.dtype, "tuning input", [&]<typename T>() {
      for (int64_t i = 0; i < n; ++i) {
        double value = static_cast<double>(normal(random));
        if (draw.adversarial && i % 3 == 0) {
          const size_t k = random() % (std::size(kSpecial) + 3);
          if (k < std::size(kSpecial))
            value = draw.rows ? in_rows(kSpecial[k]) : kSpecial[k];
          else if (k == std::size(kSpecial))
            value = std::numeric_limits<double>::quiet_NaN();
          else
            value = k % 2 == 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
        } else if (draw.adversarial && i % 7 == 4) {
          value = kMild[static_cast<size_t>(i) % std::size(kMild)];
        }
        if (draw.scales && std::abs(value) > kMostOfScales) value = std::copysign(kMostOfScales, value);
        if constexpr (std::is_same_v<T, double>)
          t.as<T>()[i] = value;
        else
          t.as<T>()[i] = T(static_cast<float>(value));
      }
    });
    repeat_elements(t, n);
    return t;
  }
  // Small non-negative integers: valid as most indices, sizes and quantized data.
  auto* bytes = t.as<uint8_t>();
  std::fill(bytes, bytes + t.bytes(), uint8_t{0});
  const auto size = static_cast<int64_t>(dtype_size(desc.dtype));
  const uint64_t most = desc.dtype == DType::BOOL ? 2 : size == 1 ? 127 : 4;
  for (int64_t i = 0; i < n; ++i) bytes[i * size] = static_cast<uint8_t>(random() % most);
  repeat_elements(t, n);
  return t;
}

double pair_error(double got, double want, double scale) {
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (std::isinf(want) || std::isinf(got)) return got == want ? 0 : std::numeric_limits<double>::infinity();
  return std::abs(got - want) / scale;
}

bool quantizes(const StepShape& region) {
  return std::any_of(region.body.begin(), region.body.end(),
                     [](const StepShape& inner) { return inner.step->op == "QuantizeLinear" || quantizes(inner); });
}

void copy_bytes(const Tensor& from, const Tensor& to) {
  if (!from.defined() || from.bytes() == 0) return;
  std::memcpy(to.view().data, from.view().data, static_cast<size_t>(from.bytes()));
}

void add_sway(const Tensor& moved, const Tensor& right, std::vector<double>& sway) {
  if (!moved.defined()) return;
  const std::vector<double> here = moved.to_f64();
  const std::vector<double> there = right.to_f64();
  sway.resize(here.size());
  for (size_t k = 0; k < here.size(); ++k) sway[k] = std::max(sway[k], pair_error(here[k], there[k], 1));
}

bool have_same_bytes(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.view().data, b.view().data, static_cast<size_t>(a.bytes())) == 0);
}

Tensor copy_of(const Tensor& from) {
  if (!from.defined()) return {};
  Tensor to(from.dtype(), from.dims());
  copy_bytes(from, to);
  return to;
}

// The value that `share` of the values do not exceed.
double quantile(std::vector<double> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

Workbench::Workbench(const Step& step, const TuneTask& task, bool adversarial, uint64_t seed, bool rows,
                     device::Device* device, bool cold)
    : rows_(rows) {
  if (device != nullptr) {
    std::vector<bool> cold_inputs;
    for (const Tensor& constant : task.constants) cold_inputs.push_back(cold && constant.defined());
    device_ = std::make_unique<DeviceBench>(*device, std::move(cold_inputs));
  }
  std::mt19937_64 random(seed);
  int64_t largest = 0;
  for (const TensorDesc& input : task.inputs) {
    if (input.dtype != DType::UNDEFINED) largest = std::max(largest, input.count());
  }
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    if (task.inputs[i].dtype == DType::UNDEFINED)
      inputs_.emplace_back();
    else if (task.constants[i].defined())
      inputs_.push_back(task.constants[i]);
    else
      inputs_.push_back(
          make_input(task.inputs[i], {adversarial, rows, rows && task.inputs[i].count() < largest}, random));
    input_addresses_.push_back(inputs_.back().view().data);
  }
  for (const TensorDesc& desc : task.outputs) {
    outputs_.push_back(desc.dtype == DType::UNDEFINED ? Tensor() : Tensor(desc.dtype, desc.dims));
    output_addresses_.push_back(outputs_.back().view().data);
  }
}

void Workbench::run(Kernel& kernel) {
  if (device_ != nullptr) return device_->run(kernel, inputs_, outputs_, places_);
  for (const Tensor& out : outputs_) {  // stale results must not pass
    if (out.defined() && out.bytes() > 0) std::memset(out.view().data, 0x7f, static_cast<size_t>(out.bytes()));
  }
  run_on_host(kernel);
}

void Workbench::warm_up(Kernel& kernel) {
  if (device_ == nullptr) return;
  run(kernel);
  device_->warm_up(kernel);
}

double Workbench::sample(Kernel& kernel, int repeats) {
  if (device_ != nullptr) return device_->sample(kernel, repeats);
  const auto start = std::chrono::steady_clock::now();
  for (int r = 0; r < repeats; ++r) run_on_host(kernel);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / repeats;
}

void Workbench::run_on_host(Kernel& kernel) {
  if (scratch_.size() < kernel.scratch_bytes() + 64) scratch_.resize(kernel.scratch_bytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(scratch_.data());
  address = (address + 63) / 64 * 64;
  kernel.run({input_addresses_.data(), output_addresses_.data(), reinterpret_cast<void*>(address)});
}

// Small integers may be too large to index a small dim.
void Workbench::set_indices_to_zero(const StepShape& shape) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (shape.constants[i] != nullptr || !inputs_[i].defined() || !is_integer(inputs_[i].dtype())) continue;
    std::memset(inputs_[i].view().data, 0, static_cast<size_t>(inputs_[i].bytes()));
  }
}

std::vector<Tensor> Workbench::results_of(const StepShape& on_host) {
  const std::unique_ptr<Kernel> reference = reference_launcher().make(on_host, Tactic{});
  try {
    run_on_host(*reference);
  } catch (const Error& e) {
    if (e.code() != Code::INDEX_RANGE) throw;
    set_indices_to_zero(on_host);
    run_on_host(*reference);
  }
  return outputs();
}

std::vector<Tensor> Workbench::outputs() const {
  std::vector<Tensor> copies;
  for (const Tensor& out : outputs_) copies.push_back(copy_of(out));
  return copies;
}

void Workbench::run_reference(const StepShape& shape) {
  StepShape on_host = shape;
  on_host.device = nullptr;
  for (StepShape& inner : on_host.body) inner.device = nullptr;
  places_ = device_ != nullptr ? places_to_check(shape) : 0;
  if (places_ > 0) {
    expected_ = reference_of_places(on_host, inputs_, places_);
    return;
  }
  reference_ = std::make_unique<WideRegion>(on_host);
  expected_ = results_of(reference_->shape());
  // The regions of a combo have kernels, each of which rounds as the copies do.
  const bool rounds = computes_in_16_bits(shape) && !is_combo(*shape.program, *shape.step);
  if (rounds) expected_by_steps_ = results_of(on_host);
  quantizes_ = quantizes(shape);
}

// A difference of nearly equal numbers moves by much more than itself times the tolerance, in any order of operations.
bool Workbench::learn_sway() {
  constexpr int kTries = 2;
  if (!sway_.empty() || reference_ == nullptr || reference_->shape().body.empty()) return false;
  const std::vector<Tensor> kernels = outputs();
  sway_.assign(outputs_.size(), {});
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    Tactic tactic;
    tactic.variant = kSwaying + std::to_string(attempt);
    try {
      run_on_host(*reference_launcher().make(reference_->shape(), tactic));
    } catch (const Error&) {  // an index that is computed from a float, say, may leave its range
      break;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) add_sway(outputs_[i], expected_[i], sway_[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].defined()) sway_[i].resize(static_cast<size_t>(outputs_[i].count()));
  }
  for (std::vector<double>& all : sway_) {
    std::vector<double> seen;
    std::copy_if(all.begin(), all.end(), std::back_inserter(seen), [](double s) { return s > 0 && std::isfinite(s); });
    const double usual = seen.size() * 2 < all.size() || seen.empty() ? 0 : quantile(std::move(seen), 0.5);
    for (double& s : all) s = std::max(s, usual);  // it may have come back by chance
  }
  for (size_t i = 0; i < kernels.size(); ++i) copy_bytes(kernels[i], outputs_[i]);
  return true;
}

namespace {

double largest_finite(const double* values, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) largest = std::max(largest, std::abs(values[i]));
  }
  return largest;
}

// The places of 16-bit floats among all, so that neighbours differ by one. Zeros of both signs share a place.
int place_of(uint16_t bits) { return (bits & 0x8000u) != 0 ? -static_cast<int>(bits & 0x7fffu) : bits; }

bool is_quantized(DType type) {
  return type == DType::INT8 || type == DType::UINT8 || type == DType::INT16 || type == DType::UINT16;
}

bool are_neighbours(const Tensor& got, const Tensor& want, size_t i) {
  return std::abs(place_of(got.as<uint16_t>()[i]) - place_of(want.as<uint16_t>()[i])) <= 1;
}

// Adds the errors of one output, `width` values to a scale of their own and `floor` added to it. `allowed` also says
// whether one unit is.
void add_errors(const Tensor& out, const Tensor& expected, const std::vector<double>& sway, size_t width, double floor,
                Workbench::Errors allowed, Workbench::Errors& all) {
  constexpr double kBeyondSway = 4;
  const std::vector<double> got = out.to_f64();
  const std::vector<double> want = expected.to_f64();
  const auto one_unit = [&](size_t k) {
    return is_16_bit_float(out.dtype()) ? are_neighbours(out, expected, k) : std::abs(got[k] - want[k]) <= 1;
  };
  for (size_t first = 0; first < want.size(); first += width) {
    const size_t count = std::min(width, want.size() - first);
    const double scale = largest_finite(want.data() + first, count) + floor;
    for (size_t k = first; k < first + count; ++k) {
      const double apart = pair_error(got[k], want[k], 1);
      const double error = apart / scale;
      all.largest = std::max(all.largest, error);
      if (apart <= allowed.allowed * scale + (sway.empty() ? 0 : kBeyondSway * sway[k])) continue;
      if (allowed.or_one_unit && std::isfinite(error) && one_unit(k)) continue;
      if (!all.pass && error / allowed.allowed <= all.wrong / all.allowed) continue;
      allowed.largest = all.largest;
      all = allowed;
      all.pass = false;
      all.wrong = error;
    }
  }
}

}  // namespace

std::vector<Tensor> Workbench::checked() const {
  if (places_ == 0) return outputs();
  std::vector<Tensor> parts;
  for (const Tensor& out : outputs_) parts.push_back(out.defined() ? last_places(out, places_) : Tensor());
  return parts;
}

Workbench::Errors Workbench::errors(Scale scale, const std::function<double(DType)>& tolerance, bool by_steps) {
  const auto is_text = [](const Tensor& t) { return t.dtype() == DType::STRING; };
  if (std::any_of(outputs_.begin(), outputs_.end(), is_text)) return errors_of(outputs_, scale, tolerance, by_steps);
  const bool sways = !sway_.empty();
  std::vector<Tensor> now = checked();
  const bool alike = judged_ && judged_->scale == scale && judged_->by_steps == by_steps && judged_->sways == sways;
  if (alike && std::equal(now.begin(), now.end(), judged_->outputs.begin(), have_same_bytes)) return judged_->errors;
  const Errors errors = errors_of(now, scale, tolerance, by_steps);
  judged_ = Judged{scale, by_steps, sways, std::move(now), errors};
  return errors;
}

Workbench::Errors Workbench::errors_of(const std::vector<Tensor>& results, Scale scale,
                                       const std::function<double(DType)>& tolerance, bool by_steps) const {
  constexpr double kSmall = 1e-2;  // inputs are of order 1: what is far below counts as 0
  constexpr double kTerms = 100;   // of a sum, leaving the extremes out
  const std::vector<Tensor>& expected = by_steps && !expected_by_steps_.empty() ? expected_by_steps_ : expected_;
  int64_t largest_input = 0;
  for (const Tensor& input : inputs_) largest_input = std::max(largest_input, input.defined() ? input.count() : 0);
  Errors all;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& out = results[i];
    if (!out.defined() || out.count() == 0) continue;
    const bool reduced = rows_ && out.count() < largest_input;
    const auto row = out.dims().rank() == 0 ? size_t{1} : static_cast<size_t>(out.dims().back());
    const size_t width = scale == Scale::OUTPUT ? static_cast<size_t>(out.count()) : rows_ && !reduced ? row : 1;
    const double floor = scale == Scale::OUTPUT ? 1e-30 : reduced ? kTerms : kSmall;
    Errors allowed;
    allowed.type = out.dtype();
    allowed.allowed = tolerance(out.dtype());
    allowed.or_one_unit = is_16_bit_float(out.dtype()) || (quantizes_ && is_quantized(out.dtype()));
    add_errors(out, expected[i], sway_.empty() ? std::vector<double>() : sway_[i], width, floor, allowed, all);
  }
  return all;
}

std::vector<Timing> time_kernels(Workbench& bench, const std::vector<Kernel*>& kernels, bool parallel,
                                 const std::function<bool()>& out_of_time) {
  std::vector<std::vector<double>> samples(kernels.size());
  double best = std::numeric_limits<double>::infinity();
  if (!kernels.empty()) bench.warm_up(*kernels[0]);
  for (size_t k = 0; k < kernels.size(); ++k) {
    bench.run(*kernels[k]);  // its code and data come near
    samples[k].push_back(bench.sample(*kernels[k], 1));
    best = std::min(best, samples[k].back());
  }
  const auto is_far = [&](size_t k) { return samples[k][0] > 4 * best + 5; };
  // One interrupt must not make a fast kernel look slow.
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (int again = 0; again < (parallel ? 6 : 2) && is_far(k); ++again) {
      samples[k][0] = std::min(samples[k][0], bench.sample(*kernels[k], 1));
    }
    best = std::min(best, samples[k][0]);
  }
  const double at_once_us = bench.on_device() ? 200.0 : 30.0;  // a launch alone takes the device some time
  const int repeats = static_cast<int>(std::clamp(at_once_us / best, 1.0, 100.0));
  const int rounds = static_cast<int>(std::clamp(20000.0 / (best * repeats), 5.0, parallel ? 30.0 : 15.0));
  std::vector<bool> far(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) far[k] = is_far(k);
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!far[k]) samples[k].clear();
  }
  for (int round = 0; round < rounds && (round == 0 || !out_of_time || !out_of_time()); ++round) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (!far[k]) samples[k].push_back(bench.sample(*kernels[k], repeats));
    }
  }
  std::vector<Timing> timings;
  for (const std::vector<double>& s : samples) {
    Timing t;
    t.centre_us = parallel ? *std::min_element(s.begin(), s.end()) : quantile(s, 0.25);
    t.spread_us = quantile(s, 0.5) - t.centre_us;
    timings.push_back(t);
  }
  return timings;
}

}  // namespace deepjit
