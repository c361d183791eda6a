#include "doctor/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "doctor/view.h"

namespace deepjit::doctor {

namespace {

using Json = nlohmann::ordered_json;

std::string where_text(const Finding& f) {
  if (!f.node.empty()) return fmt::format("node \"{}\" ({})", f.node, f.op);
  const std::string value = fmt::format("\"{}\"", f.value);
  return f.value.empty() || f.message.find(value) != std::string::npos ? "" : value;
}

std::string cost_text(const Finding& f) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (f.nodes > 1) add(std::to_string(f.nodes) + " nodes");
  if (f.bytes > 0) add(fmt::format("{} bytes", f.bytes));
  if (f.time_us > 0) add(fmt::format("{:.1f} us measured", f.time_us));
  return text;
}

std::string message_text(const Finding& f) {
  const std::string where = where_text(f);
  return (where.empty() ? "" : where + ": ") + f.message;
}

Json finding_json(const Finding& f) {
  return {
      {"rule", f.rule->id},
      {"name", f.rule->name},
      {"severity", severity_name(f.severity)},
      {"title", f.rule->title},
      {"node", f.node.empty() ? Json(nullptr) : Json(f.node)},
      {"op", f.op.empty() ? Json(nullptr) : Json(f.op)},
      {"value", f.value.empty() ? Json(nullptr) : Json(f.value)},
      {"message", f.message},
      {"why", f.rule->why},
      {"hint", f.rule->fix},
      {"cost", {{"nodes", f.nodes}, {"bytes", f.bytes}, {"time_us", f.time_us > 0 ? Json(f.time_us) : Json(nullptr)}}},
      {"fixable", f.fixable()}};
}

Json rule_json(const Rule& rule) {
  return {{"id", rule.id},
          {"name", rule.name},
          {"shortDescription", {{"text", rule.title}}},
          {"fullDescription", {{"text", rule.why}}},
          {"help", {{"text", rule.fix}}},
          {"defaultConfiguration", {{"level", severity_name(rule.severity)}}}};
}

Json result_json(const Finding& f, const std::string& model) {
  Json location = {{"physicalLocation", {{"artifactLocation", {{"uri", model}}}}}};
  const std::string name = f.node.empty() ? f.value : f.node;
  if (!name.empty()) {
    location["logicalLocations"] = Json::array({{{"name", name},
                                                 {"fullyQualifiedName", f.op.empty() ? name : f.op + "/" + name},
                                                 {"kind", f.node.empty() ? "value" : "node"}}});
  }
  return {{"ruleId", f.rule->id},
          {"ruleIndex", f.rule - rules().data()},
          {"level", severity_name(f.severity)},
          {"message", {{"text", message_text(f) + ". " + f.rule->why + " " + f.rule->fix}}},
          {"locations", Json::array({location})},
          {"properties", {{"nodes", f.nodes}, {"bytes", f.bytes}, {"timeUs", f.time_us}, {"fixable", f.fixable()}}}};
}

// A path as the URI reference that SARIF wants.
std::string uri_of(const std::string& path) {
  std::string uri;
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || std::string("-._~/").find(c) != std::string::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string report_text(const Report& report, size_t most_per_rule) {
  // Findings of one rule and severity are a group; they come sorted.
  std::string text;
  for (size_t start = 0; start < report.findings.size();) {
    const Finding& head = report.findings[start];
    size_t end = start;
    bool fixable = false;
    while (end < report.findings.size() && report.findings[end].rule == head.rule &&
           report.findings[end].severity == head.severity) {
      fixable = report.findings[end].fixable() || fixable;
      ++end;
    }
    text +=
        fmt::format("{}[{} {}]: {}\n", severity_name(head.severity), head.rule->id, head.rule->name, head.rule->title);
    for (size_t i = start; i < end && i - start < most_per_rule; ++i) {
      const std::string cost = cost_text(report.findings[i]);
      text += "  " + message_text(report.findings[i]) + (cost.empty() ? "" : " (" + cost + ")") + "\n";
    }
    if (end - start > most_per_rule) text += fmt::format("  and {} more\n", end - start - most_per_rule);
    text += fmt::format("  why: {}\n  fix: {}{}\n", head.rule->why, head.rule->fix,
                        fixable ? " --fix OUT.onnx does it." : "");
    start = end;
  }
  text += counted(report.count(Severity::ERROR), "error") + ", " + counted(report.count(Severity::WARNING), "warning") +
          ", " + counted(report.count(Severity::NOTE), "note") + "\n";
  if (!report.measured.empty()) text += "nothing was measured: " + report.measured + "\n";
  return text;
}

std::string findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) list.push_back(finding_json(f));
  return dumped(list);
}

std::string report_sarif(const Report& report, const std::string& model, const std::string& version) {
  Json table = Json::array();
  for (const Rule& rule : rules()) table.push_back(rule_json(rule));
  Json results = Json::array();
  for (const Finding& f : report.findings) results.push_back(result_json(f, uri_of(model)));
  const Json run = {{"tool", {{"driver", {{"name", "deepjit doctor"}, {"version", version}, {"rules", table}}}}},
                    {"artifacts", Json::array({{{"location", {{"uri", uri_of(model)}}}}})},
                    {"results", results}};
  const Json sarif = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return dumped(sarif) + "\n";
}

}  // namespace deepjit::doctor
