#include "tune/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/expand.h"
#include "kernels/reference/launch_region.h"
#include "ops/op.h"
#include "program/tf32.h"
#include "tune/odd_sizes.h"
#include "tune/wide_region.h"

namespace deepjit {

StepShape shape_of(const Program& program, const TuneTask& task, const TuneOptions& options) {
  StepShape shape;
  shape.program = &program;
  shape.step = &program.steps[static_cast<size_t>(task.step)];
  for (const TuneTask& inner : task.body) shape.body.push_back(shape_of(program, inner, options));
  shape.inputs = task.inputs;
  shape.outputs = task.outputs;
  shape.threads = options.threads;
  shape.device = options.present.get();
  shape.architectures = options.architectures;
  for (const Tensor& c : task.constants) shape.constants.push_back(c.defined() ? &c : nullptr);
  return shape;
}

// Operands have the bits of float16 then.
constexpr double kTf32Tolerance = 1e-3;

double tolerance_of(DType type) {
  if (is_16_bit_float(type)) return 1e-3;
  return type == DType::FLOAT64 ? 1e-10 : 1e-5;
}

Verifier::Verifier(const Program& program, const TuneTask& task, const StepShape& shape, const TuneOptions& options)
    : program_(program),
      task_(task),
      shape_(shape),
      options_(options),
      plain_(*shape.step, task, false, 1, false, options.present.get(), options.cold_constants) {
  plain_.run_reference(shape);
}

bool Verifier::goes_over_rows(const TuneTask& task) const {
  return std::any_of(task.body.begin(), task.body.end(), [&](const TuneTask& inner) {
    const ExpandRule* rule = find_rule(program_.steps[static_cast<size_t>(inner.step)].op);
    return (rule != nullptr && rule->reduced != nullptr) || goes_over_rows(inner);
  });
}

void Verifier::prepare() {
  if (!find_op(shape_.step->op).pointwise && task_.body.empty()) return;
  hard_ = std::make_unique<Workbench>(*shape_.step, task_, true, 2, goes_over_rows(task_), options_.present.get());
  try {
    hard_->run_reference(shape_);
  } catch (const Error& e) {  // an index that is computed from special values
    if (e.code() != Code::INDEX_RANGE) throw;
    hard_.reset();
  }
  if (!task_.body.empty()) set_odd();
}

void Verifier::set_odd() {
  const auto odd = at_odd_sizes(program_, task_);
  if (!odd) return;
  odd_task_ = *odd;
  odd_shape_ = shape_of(program_, odd_task_, options_);
  try {
    odd_ = std::make_unique<Workbench>(*shape_.step, odd_task_, false, 3, false, options_.present.get());
    odd_->run_reference(odd_shape_);
  } catch (const Error&) {  // sizes that the steps do not take
    odd_.reset();
  }
}

void Verifier::judge(Workbench& bench, Workbench::Scale scale, bool by_steps, const char* where,
                     Verdict& verdict) const {
  const bool tf32 = may_use_tf32(program_, *shape_.step);
  const auto tolerance = [&](DType type) {
    if (options_.tolerance > 0) return options_.tolerance;
    return tf32 && type == DType::FLOAT32 ? kTf32Tolerance : tolerance_of(type);
  };
  Workbench::Errors errors = bench.errors(scale, tolerance, by_steps);
  // A tolerance that the user gave is kept to the letter.
  if (!errors.pass && options_.tolerance == 0 && bench.learn_sway()) errors = bench.errors(scale, tolerance, by_steps);
  if (errors.pass) {
    if (scale == Workbench::Scale::OUTPUT) verdict.error = std::max(verdict.error, errors.largest);
    return;
  }
  verdict.error = errors.wrong;
  verdict.fault = fmt::format("relative error {:.2e}{}, allowed is {:.1e}", errors.wrong, where, errors.allowed);
  if (errors.or_one_unit) {
    verdict.fault += fmt::format(" or one unit in the last place of {}", dtype_name(errors.type));
  }
}

Verifier::Verdict Verifier::check(Kernel& kernel, const Launcher& launcher, const Tactic& tactic) {
  const bool by_steps = tactic.provider == reference_launcher().name() && tactic.variant == kStepByStep;
  Verdict verdict;
  plain_.bring(kernel, tactic);
  plain_.run(kernel);
  judge(plain_, Workbench::Scale::OUTPUT, by_steps, "", verdict);
  if (verdict.fault.empty() && odd_ != nullptr) {
    if (const std::unique_ptr<Kernel> small = launcher.make(odd_shape_, tactic)) {
      odd_->bring(*small, tactic);
      odd_->run(*small);
      judge(*odd_, Workbench::Scale::OUTPUT, by_steps, " at odd sizes", verdict);
    }
  }
  if (verdict.fault.empty() && hard_ != nullptr) {
    hard_->bring(kernel, tactic);
    hard_->run(kernel);
    judge(*hard_, Workbench::Scale::ELEMENT, by_steps, " on special values", verdict);
  }
  return verdict;
}

}  // namespace deepjit
