#include "doctor/doctor.h"

#include <algorithm>

#include "compiler/build.h"
#include "compiler/option_text.h"
#include "doctor/checkup.h"
#include "doctor/editor.h"
#include "doctor/measure.h"
#include "doctor/verify.h"
#include "import/onnx/parse.h"

namespace deepjit::doctor {

namespace {

constexpr int kMostRounds = 400;

onnx::ModelProto parsed(std::span<const uint8_t> bytes, const Options& options) {
  ImportOptions import_options;
  import_options.folder = options.folder;
  onnx::ModelProto model;
  importer::parse_onnx(bytes, import_options, model);
  return model;
}

std::span<const uint8_t> span_of(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

void check_ignored(const Options& options) {
  for (const std::string& id : options.ignored) {
    const auto all = rules();
    const bool known = std::any_of(all.begin(), all.end(), [&](const Rule& r) { return id == r.id; });
    if (!known) throw Error(Code::ARGUMENT, "there is no rule \"" + id + "\"", "docs/doctor.md lists the rules");
  }
}

// The findings of the rules that `wanted` takes, in the order of the rules.
template <typename F>
Report examine(const onnx::ModelProto& model, const Options& options, F&& wanted) {
  Report report;
  const ModelView view(model, options.folder);
  Checkup checkup(view, options, report);
  for (const Rule& rule : rules()) {
    if (wanted(rule) && options.ignored.count(rule.id) == 0) checkup.run(rule);
  }
  return report;
}

void add_times(std::span<const uint8_t> model, const Options& options, Report& report) {
  std::map<std::string, double> times;
  try {
    times = measure_nodes(model, options);
  } catch (const Error& e) {
    report.measured = e.message();
    return;
  }
  for (Finding& finding : report.findings) {
    for (const std::string& value : finding.values) {
      const auto found = times.find(value);
      if (found != times.end()) finding.time_us += found->second;
    }
  }
}

bool has_external_data(const onnx::GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) {
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return true;
  }
  for (const auto& node : graph.node()) {
    for (const auto& a : node.attribute()) {
      if (a.has_g() && has_external_data(a.g())) return true;
      if (a.has_t() && a.t().data_location() == onnx::TensorProto::EXTERNAL) return true;
    }
  }
  return false;
}

bool is_one_of(const Rule& rule, std::initializer_list<const char*> ids) {
  return std::any_of(ids.begin(), ids.end(), [&](const char* id) { return std::string(id) == rule.id; });
}

// What these rules mend is meant to change results, or makes a model of something that was none.
bool changes_meaning(const Rule& rule) { return is_one_of(rule, {"DJ111", "DJ112", "DJ143"}); }
// Another formula for the same function: equal but for rounding.
bool rounds(const Rule& rule) { return is_one_of(rule, {"DJ141", "DJ142"}); }

// One fix at work.
class Fixer {
 public:
  Fixer(onnx::ModelProto model, const Options& options) : model_(std::move(model)), options_(options) {}

  // Mends of rules that change meaning, all at once.
  bool change_meaning() {
    const Report report = examine(model_, options_, changes_meaning);
    return apply(report, [](const Finding&) { return true; });
  }

  // One round of the others; false when nothing is left to mend. Mends that move values to another layout, or nodes to
  // another graph, go before those that rely on both.
  bool round() {
    const Report report = examine(model_, options_, [](const Rule& r) { return r.fixable && !changes_meaning(r); });
    std::set<std::string> taken;
    const auto apart = [&](const Finding& f) {
      if (!is_one_of(*f.rule, {"DJ202"})) return false;
      for (const std::string& value : f.values) {
        if (taken.count(value) != 0) return false;
      }
      taken.insert(f.values.begin(), f.values.end());
      return true;
    };
    bool one = false;
    const auto first_branch = [&](const Finding& f) {
      return is_one_of(*f.rule, {"DJ131"}) && !std::exchange(one, true);
    };
    const auto plain = [](const Finding& f) { return !is_one_of(*f.rule, {"DJ103", "DJ131", "DJ202"}); };
    const auto last = [](const Finding& f) { return is_one_of(*f.rule, {"DJ103"}); };
    return apply(report, apart) || apply(report, first_branch) || apply(report, plain) || apply(report, last);
  }

  std::string bytes() const { return model_.SerializePartialAsString(); }
  bool external_data() const { return has_external_data(model_.graph()); }
  bool exact() const { return exact_; }
  bool freed_batch() const { return freed_batch_; }

 private:
  template <typename F>
  bool apply(const Report& report, F&& wanted) {
    Editor editor(model_);
    bool any = false;
    for (const Finding& finding : report.findings) {
      if (!finding.fixable() || !wanted(finding)) continue;
      finding.mend(editor);
      any = true;
      exact_ = exact_ && !rounds(*finding.rule);
      freed_batch_ = freed_batch_ || is_one_of(*finding.rule, {"DJ103"});
    }
    if (any) editor.finish();
    return any;
  }

  onnx::ModelProto model_;
  const Options& options_;
  bool exact_ = true;
  bool freed_batch_ = false;
};

}  // namespace

size_t Report::count(Severity severity) const {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.severity == severity; }));
}

Report diagnose(std::span<const uint8_t> model, const Options& options) {
  check_ignored(options);
  Report report = examine(parsed(model, options), options, [](const Rule&) { return true; });
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  if (options.measure) add_times(model, options, report);
  return report;
}

FixResult fix(std::span<const uint8_t> model, const Options& options) {
  FixResult result;
  Options quiet = options;
  quiet.measure = false;
  const Report before = diagnose(model, quiet);
  Fixer fixer(parsed(model, options), options);
  const bool meaning = fixer.change_meaning();
  ProofRequest request;
  request.before = fixer.bytes();
  int rounds = 0;
  while (rounds < kMostRounds && fixer.round()) ++rounds;
  if (!meaning && rounds == 0) {
    result.left = before.findings;
    result.reason = "there is nothing that can be mended";
    return result;
  }
  request.after = fixer.bytes();
  request.exact = fixer.exact();
  request.freed_batch = fixer.freed_batch();
  if (meaning) {
    result.steps.push_back("mends that change results on purpose (training mode, invalid nodes) came first");
  }
  const Proof proof = prove_equal(request, options);
  result.steps.insert(result.steps.end(), proof.steps.begin(), proof.steps.end());
  if (!proof.failure.empty()) {
    result.left = before.findings;
    result.reason = "the mended model is not proven equal: " + proof.failure;
    return result;
  }
  result.model = request.after;
  result.external_data = fixer.external_data();
  result.left = diagnose(span_of(result.model), quiet).findings;
  for (const Finding& finding : before.findings) {
    if (finding.fixable()) result.mended.push_back(finding);
  }
  return result;
}

std::vector<std::map<std::string, Dims>> parse_traffic(const std::vector<std::string>& texts) {
  std::vector<std::map<std::string, Dims>> traffic;
  for (const std::string& text : texts) {
    size_t start = 0;
    // Shapes of different inputs after each other belong together; a name that comes again starts the next request.
    traffic.emplace_back();
    while (start <= text.size()) {
      const size_t end = std::min(text.find(',', start), text.size());
      const std::string word = text.substr(start, end - start);
      const size_t equals = word.rfind('=');
      if (equals == std::string::npos || equals == 0) {
        throw Error(Code::ARGUMENT, "traffic \"" + word + "\" is not understood",
                    "write it like x=1x3x224x224,x=8x3x640x640");
      }
      const std::string name = word.substr(0, equals);
      if (traffic.back().count(name) != 0) traffic.emplace_back();
      traffic.back()[name] = parse_shape(word.substr(equals + 1));
      start = end + 1;
    }
  }
  return traffic;
}

}  // namespace deepjit::doctor
