// DJ601 to DJ609: a model against the TensorRT settings it is going to be built and run with.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "doctor/checkup.h"

namespace deepjit::doctor {

namespace {

const TensorRtSettings* settings_of(const Checkup& checkup) {
  const auto& settings = checkup.options.settings.tensorrt;
  return settings ? &*settings : nullptr;
}

const onnx::NodeProto* first_of(const Checkup& checkup, const std::set<std::string>& ops, const GraphView** where) {
  const onnx::NodeProto* found = nullptr;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (found != nullptr || ops.count(node.op_type()) == 0) return;
    found = &node;
    *where = &graph;
  });
  return found;
}

// Inputs of the main graph with dims that are open.
std::vector<std::string> open_inputs(const Checkup& checkup) {
  std::vector<std::string> names;
  for (const auto& info : checkup.model.main().proto().input()) {
    if (checkup.model.main().is_initializer(info.name())) continue;
    const Shape shape = checkup.model.type(checkup.model.main(), info.name()).shape;
    if (shape.ranked() && !shape.as_const()) names.push_back(info.name());
  }
  return names;
}

bool inside(const Dims& dims, const Dims& low, const Dims& high) {
  if (dims.rank() != low.rank() || dims.rank() != high.rank()) return false;
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] < low[i] || dims[i] > high[i]) return false;
  }
  return true;
}

// Bytes that the largest product of the model reads and writes at the profile's maximum.
double largest_product(const Checkup& checkup, const TensorRtSettings& trt, std::string& name) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [input, dims] : trt.max) {
    const Shape shape = checkup.model.type(checkup.model.main(), input).shape;
    for (int i = 0; shape.ranked() && i < std::min(shape.rank(), dims.rank()); ++i) {
      if (shape[i].is_symbol()) sizes[shape[i].to_string()] = dims[i];
    }
  }
  const auto bytes_of = [&](const GraphView& graph, const std::string& value) {
    const TensorType type = checkup.model.type(graph, value);
    double bytes = type.shape.ranked() ? static_cast<double>(std::max<size_t>(1, dtype_size(type.dtype))) : 0;
    for (int i = 0; type.shape.ranked() && i < type.shape.rank(); ++i) {
      const auto d = type.shape[i].evaluate([&](const std::string& symbol) -> std::optional<int64_t> {
        const auto found = sizes.find(symbol);
        return found == sizes.end() ? 1 : found->second;
      });
      bytes *= static_cast<double>(std::max<int64_t>(d.value_or(1), 1));
    }
    return bytes;
  };
  double most = 0;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    static const std::set<std::string> products = {"Conv", "ConvTranspose", "MatMul", "Gemm"};
    if (products.count(node.op_type()) == 0) return;
    double bytes = 0;
    for (const auto& value : node.input()) bytes += value.empty() ? 0 : bytes_of(graph, value);
    for (const auto& value : node.output()) bytes += value.empty() ? 0 : bytes_of(graph, value);
    if (bytes <= most) return;
    most = bytes;
    name = graph.name_of(node);
  });
  return most;
}

}  // namespace

void check_int8_without_scales(Checkup& checkup) {
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr || !(trt->int8 || trt->best) || trt->strongly_typed || !trt->calibration.empty()) return;
  const GraphView* where = nullptr;
  if (first_of(checkup, {"QuantizeLinear", "DequantizeLinear"}, &where) != nullptr) return;
  checkup.found(std::string(trt->int8 ? "--int8" : "--best") +
                " has no calibration cache, and the model no QuantizeLinear to take scales from");
}

void check_scales_without_int8(Checkup& checkup) {
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr || trt->int8 || trt->best || trt->strongly_typed) return;
  const GraphView* where = nullptr;
  const onnx::NodeProto* node = first_of(checkup, {"QuantizeLinear"}, &where);
  if (node != nullptr) checkup.found(*where, *node, "quantizes, and the settings do not allow INT8");
}

void check_profile_against_traffic(Checkup& checkup) {
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr) return;
  std::set<std::string> told;
  for (const auto& entry : checkup.options.traffic) {
    for (const auto& [name, dims] : entry) {
      const auto low = trt->min.find(name);
      const auto high = trt->max.find(name);
      if (low == trt->min.end() || high == trt->max.end() || inside(dims, low->second, high->second)) continue;
      const std::string text = "the traffic brings " + dims.to_string() + " for \"" + name +
                               "\", the profile goes from " + low->second.to_string() + " to " +
                               high->second.to_string();
      if (!told.insert(text).second) continue;
      checkup.found(text).value = name;
    }
  }
}

void check_profile_missing(Checkup& checkup) {
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr) return;
  for (const std::string& name : open_inputs(checkup)) {
    if (trt->max.count(name) != 0) continue;
    const Shape shape = checkup.model.type(checkup.model.main(), name).shape;
    checkup.found("\"" + name + "\" is " + shape.to_string() + " and has no profile").value = name;
  }
}

void check_profile_wrong(Checkup& checkup) {
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr) return;
  for (const auto& [name, high] : trt->max) {
    const auto wrong = [&, &input = name](const std::string& why) {
      checkup.found("the profile of \"" + input + "\" " + why).value = input;
    };
    if (!checkup.model.main().is_input(name)) {
      wrong("is of no input of the model");
      continue;
    }
    const Dims& low = trt->min.at(name);
    const Dims& best = trt->opt.at(name);
    const Shape shape = checkup.model.type(checkup.model.main(), name).shape;
    if (low.rank() != high.rank() || best.rank() != high.rank() || (shape.ranked() && shape.rank() != high.rank())) {
      wrong("has rank " + std::to_string(high.rank()) + ", the input is " + shape.to_string());
      continue;
    }
    if (!inside(best, low, high)) {
      wrong("needs min <= opt <= max, it is " + low.to_string() + ", " + best.to_string() + ", " + high.to_string());
      continue;
    }
    for (int i = 0; shape.ranked() && i < shape.rank(); ++i) {
      if (!shape[i].is_const() || (shape[i] == low[i] && shape[i] == high[i])) continue;
      wrong(fmt::format("moves dimension {}, which the model fixes to {}", i, shape[i].value()));
      break;
    }
  }
}

void check_workspace(Checkup& checkup) {
  constexpr double kLeast = 64 << 20;  // the matrix library alone asks for 32 MiB
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr || !trt->workspace) return;
  const auto given = static_cast<double>(*trt->workspace);
  std::string name;
  const double needed = largest_product(checkup, *trt, name);
  if (given >= kLeast && given >= needed) return;
  constexpr double kMiB = 1 << 20;
  std::string text = fmt::format("{:.0f} MiB of workspace", given / kMiB);
  if (given < kLeast) text += fmt::format(", libraries ask for {:.0f} and more", kLeast / kMiB);
  if (given < needed)
    text += fmt::format(", \"{}\" alone moves {:.0f} MiB at the profile's maximum", name, needed / kMiB);
  checkup.found(text).bytes = static_cast<int64_t>(std::max(kLeast, needed) - given);
}

void check_foreign_ops(Checkup& checkup) {
  if (settings_of(checkup) == nullptr) return;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (node.domain().rfind("com.microsoft", 0) != 0 || checkup.model.is_function(node)) return;
    checkup.found(graph, node, "\"" + node.domain() + "." + node.op_type() + "\" is ONNX Runtime's own");
  });
}

void check_zero_points(Checkup& checkup) {
  if (settings_of(checkup) == nullptr) return;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "QuantizeLinear") && !is(&node, "DequantizeLinear")) return;
    const auto zero = checkup.model.integers(graph, input_of(node, 2));
    if (!zero || std::all_of(zero->begin(), zero->end(), [](int64_t v) { return v == 0; })) return;
    const int64_t first = *std::find_if(zero->begin(), zero->end(), [](int64_t v) { return v != 0; });
    // The pair has one fault: told at its start.
    if (is(&node, "DequantizeLinear") && is(graph.producer(input_of(node, 0)), "QuantizeLinear")) return;
    checkup.found(graph, node, "its zero point is " + std::to_string(first));
  });
}

void check_shared_context(Checkup& checkup) {
  const TensorRtSettings* trt = settings_of(checkup);
  if (trt == nullptr || trt->execution_contexts <= 0 || trt->threads <= trt->execution_contexts) return;
  checkup.found(fmt::format("{} threads share {} execution context{}", trt->threads, trt->execution_contexts,
                            trt->execution_contexts == 1 ? "" : "s"));
}

}  // namespace deepjit::doctor
