// DJ401 to DJ403: weights that are there twice, for nothing, or as inputs.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <string_view>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

constexpr int64_t kFewest = 16;                       // elements; smaller ones are shapes and scalars
constexpr int64_t kUniformBytes = int64_t{64} << 10;  // zeros and ones are alike by nature, and small ones harmless

std::string_view bytes_of(const Tensor& t) { return {t.as<char>(), static_cast<size_t>(t.bytes())}; }

bool uniform(const Tensor& t) {
  const size_t size = dtype_size(t.dtype());
  const std::string_view bytes = bytes_of(t);
  return std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

bool comparable(const Tensor& t) {
  return !is_object(t.dtype()) && t.count() >= kFewest && (t.bytes() >= kUniformBytes || !uniform(t));
}

}  // namespace

void check_duplicate_weights(Checkup& checkup) {
  struct Weight {
    const GraphView* graph;
    std::string name;
    const Tensor* tensor;
  };
  std::unordered_map<size_t, std::vector<Weight>> seen;
  const auto look = [&](const GraphView& graph, const std::string& name) {
    const Tensor* tensor = checkup.model.constant(graph, name);
    if (tensor == nullptr || !comparable(*tensor) || !graph.used(name)) return;
    auto& alike = seen[std::hash<std::string_view>()(bytes_of(*tensor))];
    for (const Weight& first : alike) {
      if (!first.tensor->same_as(*tensor)) continue;
      Finding& finding =
          checkup.found(fmt::format("\"{}\" holds the same {} as \"{}\"", name,
                                    TensorType{tensor->dtype(), Shape(tensor->dims())}.to_string(), first.name));
      finding.value = name;
      finding.bytes = tensor->bytes();
      const bool overridable = graph.is_input(name) || first.graph->is_input(first.name);
      const bool named = graph.is_output(name) || graph.is_input(first.name);
      if (first.graph == &graph && !overridable && !named) {
        finding.mend = [scope = graph.index(), name, kept = first.name](Editor& editor) {
          editor.alias(scope, name, kept);
        };
      }
      return;
    }
    alike.push_back({&graph, name, tensor});
  };
  for (const auto& graph : checkup.model.graphs()) {
    for (const auto& tensor : graph->proto().initializer()) look(*graph, tensor.name());
    for (const auto& node : graph->proto().node()) {
      if (is(&node, "Constant") && node.output_size() == 1) look(*graph, output_of(node, 0));
    }
  }
}

void check_unused_weights(Checkup& checkup) {
  for (const auto& graph : checkup.model.graphs()) {
    for (const auto& tensor : graph->proto().initializer()) {
      if (graph->used(tensor.name())) continue;
      const bool interface = graph->is_input(tensor.name()) && checkup.model.proto().ir_version() >= 4;
      if (interface) continue;  // DJ403 has it
      Finding& finding = checkup.found("nothing reads \"" + tensor.name() + "\"");
      finding.value = tensor.name();
      if (const Tensor* data = checkup.model.constant(*graph, tensor.name()); data && !is_object(data->dtype())) {
        finding.bytes = data->bytes();
      }
      finding.mend = [scope = graph->index(), name = tensor.name()](Editor& editor) {
        editor.drop_initializer(scope, name);
      };
    }
  }
}

void check_weights_as_inputs(Checkup& checkup) {
  const GraphView& graph = checkup.model.main();
  if (checkup.model.proto().ir_version() < 4) return;
  std::vector<std::string> names;
  for (const auto& info : graph.proto().input()) {
    const onnx::TensorProto* tensor = graph.initializer(info.name());
    if (tensor == nullptr) continue;
    int64_t count = 1;
    for (int64_t d : tensor->dims()) count = d < 0 || count > (1 << 20) ? count : count * d;
    if (count >= kFewest) names.push_back(info.name());  // a small one may be an optional argument
  }
  if (names.empty()) return;
  Finding& finding = checkup.found(counted(names.size(), "weight") + " can be overridden by callers, the first is \"" +
                                   names.front() + "\"");
  finding.value = names.front();
}

}  // namespace deepjit::doctor
