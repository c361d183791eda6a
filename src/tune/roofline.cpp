#include "tune/roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/limits.h"
#include "ops/op.h"
#include "ops/work.h"
#include "program/tf32.h"
#include "tune/candidate.h"

namespace deepjit {

namespace {

constexpr double kWell = 0.3;
constexpr double kShortUs = 5;
constexpr double kWinograd = 2.25;

double bytes_of(const TensorDesc& desc) {
  return desc.dtype == DType::UNDEFINED || is_object(desc.dtype) ? 0 : static_cast<double>(desc.bytes());
}

// Each operand once.
double bytes_of(const StepShape& shape) {
  double written = 0, read = 0;
  for (const TensorDesc& output : shape.outputs) written += bytes_of(output);
  const std::vector<int32_t>& buffers = shape.step->inputs;
  for (size_t i = 0; i < shape.inputs.size(); ++i) {
    const auto here = buffers.begin() + static_cast<std::ptrdiff_t>(std::min(i, buffers.size()));
    const bool again = here != buffers.end() && std::find(buffers.begin(), here, *here) != here;
    if (again) continue;
    const double bytes = bytes_of(shape.inputs[i]);
    read += i == 0 && reads_a_part(shape.step->op) ? std::min(bytes, written) : bytes;
  }
  return read + written;
}

double flops_of(const StepShape& shape) {
  if (shape.body.empty()) return flops_of(shape.step->op, shape.step->attrs, shape.inputs, shape.outputs);
  double sum = 0;
  for (const StepShape& inner : shape.body) sum += flops_of(inner);
  return sum;
}

bool has_a_picker(const StepShape& shape) {
  return reads_a_part(shape.step->op) || std::any_of(shape.body.begin(), shape.body.end(), has_a_picker);
}

double peak_gflop_s(const StepShape& shape, const device::Peaks& peaks) {
  if (!shape.body.empty() || shape.inputs.empty() || find_op(shape.step->op).pointwise) return peaks.gflop_s;
  const DType type = shape.inputs[0].dtype;
  if (is_16_bit_float(type)) return peaks.tensor_gflop_s;
  if (type == DType::INT8 || type == DType::UINT8) return 2 * peaks.tensor_gflop_s;
  const bool tf32 = shape.program != nullptr && may_use_tf32(*shape.program, *shape.step);
  return tf32 ? peaks.tensor_gflop_s / 2 : peaks.gflop_s;
}

}  // namespace

std::optional<Roofline> roofline_of(const StepShape& shape, double us, const device::Info& info) {
  const device::Peaks peaks = device::peaks_of(info);
  if (us <= 0 || peaks.memory_gb_s <= 0 || peaks.gflop_s <= 0) return std::nullopt;
  const double bytes = bytes_of(shape);
  const double arithmetic_us = flops_of(shape) / peak_gflop_s(shape, peaks) / 1e3;
  Roofline out;
  out.of_memory = bytes / peaks.memory_gb_s / 1e3 / us;
  out.of_arithmetic = arithmetic_us / us;
  out.flagged = us >= kShortUs && std::max(out.of_memory, out.of_arithmetic) < kWell;
  const double from_memory = std::max(0.0, bytes - static_cast<double>(info.l2_bytes));
  const double least_us =
      std::max({bytes / peaks.l2_gb_s / 1e3, from_memory / peaks.memory_gb_s / 1e3, arithmetic_us / kWinograd});
  out.suspicious = us < least_us && !has_a_picker(shape);
  return out;
}

std::string to_string(const Roofline& roofline) {
  return fmt::format("{:.0f}% of the memory's peak, {:.0f}% of the arithmetic's", 100 * roofline.of_memory,
                     100 * roofline.of_arithmetic);
}

void RooflineReport::add(const std::string& key, const Step& step, double us, const Roofline& roofline) {
  Entry& entry = entries_[key];
  if (entry.count++ == 0) entry = {&step, us, roofline, 1};
}

std::vector<std::string> RooflineReport::lines(bool suspicious) const {
  std::vector<const Entry*> order;
  for (const auto& [key, entry] : entries_) {
    if (suspicious ? entry.roofline.suspicious : entry.roofline.flagged) order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return a->us * a->count > b->us * b->count; });
  std::vector<std::string> lines;
  for (const Entry* e : order) {
    lines.push_back(fmt::format("{} {}{}: {} takes {:.1f} us, {}", e->step->name, e->step->op,
                                e->count > 1 ? fmt::format(" and {} like it", e->count - 1) : "",
                                tactic_name(e->step->tactic), e->us, to_string(e->roofline)));
  }
  return lines;
}

}  // namespace deepjit
