// deepjit compare: is an optimised build right, and if not, where does it first go wrong?
//
// The reference is the same model without passes and tuning. First the model's outputs are compared. When
// they differ, intermediate values become outputs on both sides. An extra output can also hide a fault, as it
// keeps its node out of fusions: then one value at a time is exposed, and a bisection finds the first that differs.
#include <fmt/format.h>

#include <optional>

#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/values.h"
#include "cli/verb.h"
#include "import/importer.h"

namespace deepjit::cli {

namespace {

struct Traced {
  std::string value;
  std::string node;
  std::string op;
};

struct Divergence {
  Traced at;
  double error = 0;
};

struct OutputError {
  std::string name;
  double error = 0;
  double allowed = 0;
  bool equal() const { return error <= allowed; }
};

// By default: the reference rounds 16-bit floats at each step, kernels only at their ends (docs/codegen.md), which is a
// few units in the last place.
double allowed_of(DType type, const std::optional<double>& given) {
  if (given) return *given;
  return type == DType::FLOAT16 ? 4e-3 : type == DType::BFLOAT16 ? 3e-2 : 1e-3;
}

class Comparison {
 public:
  Comparison(std::string path, const BuildOptions& optimised, std::vector<InputSpec> specs,
             std::map<std::string, Dims> fixed, std::optional<double> tolerance)
      : path_(std::move(path)),
        optimised_(optimised),
        reference_(optimised),
        specs_(std::move(specs)),
        fixed_(std::move(fixed)),
        tolerance_(tolerance) {
    reference_.device = "cpu";
    reference_.targets.clear();
    reference_.level = 0;
    reference_.tune = false;
    reference_.disabled_passes.clear();
    reference_.force_tactic.clear();
    reference_.log = nullptr;
    reference_.dump = nullptr;
    trace();
  }

  std::vector<OutputError> outputs() {
    const Results expected = run(reference_, {});
    const Results actual = run(optimised_, {});
    std::vector<OutputError> errors;
    for (const auto& [name, tensor] : expected) errors.push_back(error_of(actual, expected, name));
    return errors;
  }

  // The first value in topological order that differs; nothing when no single value shows it.
  std::optional<Divergence> first_divergence() {
    std::vector<std::string> names;
    for (const Traced& t : traced_) names.push_back(t.value);
    expected_ = run(reference_, names);
    const Results actual = run(optimised_, names);
    for (const Traced& t : traced_) {
      const OutputError found = error_of(actual, expected_, t.value);
      if (!found.equal()) return Divergence{t, found.error};
    }
    return bisect();
  }

 private:
  using Results = std::vector<std::pair<std::string, Tensor>>;

  void trace() {
    const ImportedModel model = import_onnx_file(path_);
    for (const auto& node : model.graph->nodes()) {
      for (const Value* value : node->outputs) {
        if (value != nullptr) traced_.push_back({value->name, node->name, node->op});
      }
    }
  }

  Results run(BuildOptions options, const std::vector<std::string>& extra) {
    options.extra_outputs = extra;
    const Model model = build_model(path_, options);
    const std::vector<Tensor> fed = make_inputs(model.program(), specs_, fixed_, true);
    Context context(model.engine);
    std::vector<TensorView> views;
    context.run(views_of(fed), views);
    Results results;
    for (size_t i = 0; i < views.size(); ++i) {
      results.emplace_back(model.program().outputs[i].name, owned_copy(views[i]));
    }
    return results;
  }

  static const Tensor* find(const Results& results, const std::string& name) {
    for (const auto& [n, tensor] : results) {
      if (n == name) return &tensor;
    }
    return nullptr;
  }

  OutputError error_of(const Results& actual, const Results& expected, const std::string& name) const {
    const Tensor* a = find(actual, name);
    const Tensor* e = find(expected, name);
    if (a == nullptr || e == nullptr) return {name};
    return {name, relative_error(a->view(), e->view()), allowed_of(e->dtype(), tolerance_)};
  }

  // Exposes one value at a time; the last one is the model's own output, which is known to differ.
  std::optional<Divergence> bisect() {
    std::optional<Divergence> found;
    size_t low = 0;
    size_t high = traced_.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const Results actual = run(optimised_, {traced_[middle].value});
      const OutputError seen = error_of(actual, expected_, traced_[middle].value);
      if (!seen.equal()) {
        found = Divergence{traced_[middle], seen.error};
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return found;
  }

  std::string path_;
  BuildOptions optimised_;
  BuildOptions reference_;
  std::vector<InputSpec> specs_;
  std::map<std::string, Dims> fixed_;
  std::optional<double> tolerance_;
  std::vector<Traced> traced_;  // of the outermost graph, in topological order
  Results expected_;
};

struct CompareVerb {
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> shapes;
  std::optional<double> tolerance;
  bool json = false;
  BuildFlags flags;

  int run() const;

 private:
  void print_result(const std::vector<OutputError>& outputs, bool equal, const std::optional<Divergence>& first) const;
};

void CompareVerb::print_result(const std::vector<OutputError>& outputs, bool equal,
                               const std::optional<Divergence>& first) const {
  if (json) {
    Json list = Json::array();
    for (const OutputError& o : outputs) {
      list.push_back({{"name", o.name}, {"max_rel_error", o.error}, {"tolerance", o.allowed}, {"equal", o.equal()}});
    }
    Json divergence = nullptr;
    if (first) {
      divergence = {
          {"value", first->at.value}, {"node", first->at.node}, {"op", first->at.op}, {"max_rel_error", first->error}};
    }
    print_json({{"model", model},
                {"level", flags.level},
                {"equal", equal},
                {"outputs", list},
                {"first_divergence", divergence}});
    return;
  }
  for (const OutputError& o : outputs) {
    fmt::print("{:<9} {}  max relative error {:.2e}, allowed {:.1e}\n", o.equal() ? "equal" : "DIFFERENT", o.name,
               o.error, o.allowed);
  }
  if (equal) {
    fmt::print("all are equal\n");
  } else if (first) {
    fmt::print("first divergence: value \"{}\" of node \"{}\" ({}), max relative error {:.2e}\n", first->at.value,
               first->at.node, first->at.op, first->error);
  } else {
    fmt::print("first divergence: not found, no single exposed value differs\n");
  }
}

int CompareVerb::run() const {
  if (is_engine_file(model)) {
    throw Error(Code::ARGUMENT, "compare needs the ONNX model, \"" + model + "\" is an engine",
                "run deepjit compare M.onnx");
  }
  if (tolerance && !(*tolerance >= 0)) throw Error(Code::ARGUMENT, "the tolerance must not be negative");
  const std::vector<InputSpec> specs = parse_inputs(inputs);
  const std::map<std::string, Dims> fixed = fixed_shapes(specs, parse_shapes(shapes));
  Progress progress;
  BuildOptions options = flags.options(progress);
  fix_shapes(model, fixed, options.ranges);
  Comparison comparison(model, options, specs, fixed, tolerance);
  const std::vector<OutputError> outputs = comparison.outputs();
  bool equal = true;
  for (const OutputError& o : outputs) equal = equal && o.equal();
  std::optional<Divergence> first;
  if (!equal) first = comparison.first_divergence();
  progress.finish();
  print_result(outputs, equal, first);
  return equal ? 0 : 1;
}

}  // namespace

Verb add_compare(CLI::App& app) {
  auto verb = std::make_shared<CompareVerb>();
  CLI::App* command = app.add_subcommand("compare", "compare an optimised build with the reference, layer by layer");
  command->add_option("model", verb->model, "the ONNX model")->required()->option_text("M.onnx");
  command->add_option("-i,--input", verb->inputs, std::string(kInputDoc) + "; random by default")
      ->option_text("NAME=DATA")
      ->allow_extra_args(false);
  command->add_option("--shapes", verb->shapes, kShapesDoc)->option_text("NAME=SHAPE")->allow_extra_args(false);
  command
      ->add_option("--tolerance", verb->tolerance,
                   "largest relative error that counts as equal [default: 1e-3; 4e-3 of float16, 3e-2 of bfloat16]")
      ->option_text("E");
  command->add_flag("--json", verb->json, "print one JSON object on stdout");
  verb->flags.add_to(*command);
  command->footer(
      "The exit code is 0 when equal, 1 when different, 2 on an error.\n"
      "Example: deepjit compare m.onnx -i x=random:1 -O2");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
