#include "compiler/user_op_check.h"

#include <algorithm>
#include <optional>

#include "compiler/build.h"
#include "compiler/user_op_cases.h"
#include "compiler/user_op_compare.h"
#include "ops/pointwise/cast.h"
#include "runtime/engine.h"

namespace deepjit {

namespace {

bool is_narrow(DType dtype) { return dtype == DType::FLOAT16 || dtype == DType::BFLOAT16; }

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& t : tensors) views.push_back(t.view());
  return views;
}

// How an op is run.
struct Ways {
  Context kernel;
  Context steps;
  std::optional<Context> wide;  // the steps in float32, where the op is one of 16-bit floats
};

class Check {
 public:
  explicit Check(const RegisteredOp& entry)
      : op_(*entry.op), shared_op_(entry.op), test_(*entry.test), name_(op_.definition.name) {
    report_.op = name_;
    report_.with_reference = static_cast<bool>(test_.reference);
    report_.generated = test_.dtypes;
    for (const auto& [name, fallback] : op_.definition.attributes) attributes_[name] = fallback.value_or(1);
  }

  UserOpReport run() {
    const std::vector<UserOpDims> layouts = user_op_layouts(op_);
    for (DType dtype : test_.dtypes) {
      check_layout(dtype, layouts.front(), true);
      if (dtype != test_.dtypes.front()) continue;
      for (size_t i = 1; i < layouts.size(); ++i) check_layout(dtype, layouts[i], false);
    }
    return std::move(report_);
  }

 private:
  std::shared_ptr<const Engine> built(const std::string& model, bool fused) const {
    BuildOptions options;
    options.threads = 1;
    options.user_op = shared_op_;
    options.level = fused ? 3 : 0;
    options.tune = fused;
    if (fused) options.force_tactic = "llvm";
    BuildResult result = build({reinterpret_cast<const uint8_t*>(model.data()), model.size()}, options);
    return std::make_shared<const Engine>(std::move(result.file.program), nullptr);
  }

  // A layout that is not the usual one need not make sense for the op.
  void check_layout(DType dtype, const UserOpDims& layout, bool usual) {
    const std::string model = model_of_user_op(op_, dtype, layout);
    std::shared_ptr<const Engine> fused;
    std::shared_ptr<const Engine> steps;
    std::shared_ptr<const Engine> wide;
    try {
      fused = built(model, true);
      steps = built(model, false);
      if (is_narrow(dtype)) wide = built(model_of_user_op(op_, DType::FLOAT32, layout), false);
    } catch (const Error& e) {
      if (!usual && static_cast<int>(e.code()) / 100 == 2) return;
      throw e.with_prefix("op " + name_ + ", " + std::string(dtype_name(dtype)) + ": ");
    }
    const std::vector<Step>& all = fused->program().steps;
    if (std::none_of(all.begin(), all.end(), [](const Step& s) { return s.tactic.provider == "llvm"; })) {
      std::erase(report_.generated, dtype);
    }
    Ways ways{Context(fused, 1), Context(steps, 1), std::nullopt};
    if (wide != nullptr) ways.wide.emplace(wide, 1);
    uint64_t seed = 0;
    for (const std::vector<Dims>& shapes : user_op_sizes(layout)) {
      for (OpValues kind : {OpValues::PLAIN, OpValues::SPECIAL, OpValues::EXTREME}) {
        std::mt19937_64 random(seed++);
        check_case(ways, fed_with(dtype, shapes, kind, random));
      }
    }
  }

  std::vector<Tensor> fed_with(DType dtype, const std::vector<Dims>& shapes, OpValues kind,
                               std::mt19937_64& random) const {
    std::vector<Tensor> fed;
    for (size_t i = 0; i < shapes.size(); ++i) {
      fed.push_back(user_op_values(op_.dtypes[i].value_or(dtype), shapes[i], kind, op_.over_rows(), random));
    }
    return fed;
  }

  // Between 16-bit steps values are rounded, within a kernel they are not: it may give either result.
  void check_case(Ways& ways, const std::vector<Tensor>& fed) {
    const std::vector<TensorView> views = views_of(fed);
    std::vector<TensorView> kernel;
    std::vector<TensorView> steps;
    run_on(ways.kernel, views, kernel);
    run_on(ways.steps, views, steps);
    const std::vector<Tensor> made = expected(views);
    std::vector<std::vector<TensorView>> rights = {test_.reference ? views_of(made) : steps};
    compare("step by step", steps, rights, views);
    const std::vector<Tensor> wide_fed = ways.wide ? widened(fed) : std::vector<Tensor>();
    const std::vector<TensorView> wide_views = views_of(wide_fed);
    const std::vector<Tensor> wide_made = ways.wide ? expected(wide_views) : std::vector<Tensor>();
    if (ways.wide && test_.reference) rights.push_back(views_of(wide_made));
    if (ways.wide && !test_.reference) run_on(*ways.wide, wide_views, rights.emplace_back());
    compare("the generated kernel", kernel, rights, views);
    ++report_.cases;
  }

  // What only a run tells: a dim that is not the one the op needs.
  void run_on(Context& context, const std::vector<TensorView>& fed, std::vector<TensorView>& outputs) const {
    try {
      context.run(fed, outputs);
    } catch (const Error& e) {
      std::string operands;
      for (size_t i = 0; i < fed.size(); ++i) {
        operands += (i == 0 ? "" : ", ") + op_.inputs[i] + " " + std::string(dtype_name(fed[i].dtype)) +
                    fed[i].dims.to_string();
      }
      throw Error(e.code(), "op " + name_ + " of " + operands + ": " + e.message(),
                  "say in the shape rule what dims it takes, such as \"[N, 1] -> [N]\"");
    }
  }

  // Operands without a type of their own as float32.
  std::vector<Tensor> widened(const std::vector<Tensor>& fed) const {
    std::vector<Tensor> wide;
    for (size_t i = 0; i < fed.size(); ++i) {
      const bool stays = op_.dtypes[i].has_value() || !is_narrow(fed[i].dtype());
      wide.push_back(stays ? fed[i] : Tensor(DType::FLOAT32, fed[i].dims()));
      if (!stays) cast_elements(fed[i].view(), wide.back().view());
    }
    return wide;
  }

  // Nothing without a reference.
  std::vector<Tensor> expected(const std::vector<TensorView>& views) const {
    if (!test_.reference) return {};
    std::vector<Tensor> made = test_.reference(views, attributes_);
    const size_t wanted = op_.definition.outputs.size();
    if (made.size() != wanted) {
      throw Error(Code::ARGUMENT,
                  "the reference of " + name_ + " gives " + std::to_string(made.size()) + " results, the op has " +
                      std::to_string(wanted) + " outputs",
                  "return one tensor an output, in their order");
    }
    for (size_t i = 0; i < wanted; ++i) {
      if (made[i].dtype() == DType::BOOL || is_integer(made[i].dtype()) || is_float(made[i].dtype())) continue;
      throw Error(Code::ARGUMENT, "the reference of " + name_ + " gives no numbers for the output \"" +
                                      op_.definition.outputs[i] + "\"");
    }
    return made;
  }

  void compare(const char* how, const std::vector<TensorView>& got, const std::vector<std::vector<TensorView>>& rights,
               const std::vector<TensorView>& fed) {
    for (size_t i = 0; i < got.size(); ++i) {
      std::vector<TensorView> own;
      for (const std::vector<TensorView>& right : rights) own.push_back(right[i]);
      const OpComparison comparison{
          name_,      how, op_.definition.outputs[i], test_.reference ? "the reference" : "its steps",
          op_.inputs, fed, test_.tolerance,           op_.over_rows()};
      report_.largest_error = std::max(report_.largest_error, compare_op_output(comparison, got[i], own));
      report_.elements += static_cast<size_t>(got[i].count());
    }
  }

  const UserOp& op_;
  std::shared_ptr<const UserOp> shared_op_;
  const UserOpTest& test_;
  const std::string& name_;
  std::map<std::string, double> attributes_;
  UserOpReport report_;
};

}  // namespace

UserOpReport check_user_op(const RegisteredOp& entry) { return Check(entry).run(); }

std::vector<UserOpReport> register_tested_ops(const std::vector<OpToRegister>& ops, bool replace) {
  std::vector<RegisteredOp> entries;
  for (const OpToRegister& one : ops) entries.push_back({one.op, one.test});
  check_user_ops_are_new(entries, replace);
  for (const RegisteredOp& entry : entries) check_user_op_shapes(entry.op, entry.test->dtypes.front());
  std::vector<UserOpReport> reports(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].check) reports[i] = check_user_op(entries[i]);
  }
  register_user_ops(std::move(entries), replace);
  return reports;
}

}  // namespace deepjit
