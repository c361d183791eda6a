// deepjit limits: the table of limits that guard against hostile models and engines.
#include "base/limits.h"

#include <fmt/format.h>

#include "cli/verb.h"

namespace deepjit::cli {

namespace {

std::string error_text(Code error) {
  return error == Code::OK ? "-" : fmt::format("E{} {}", static_cast<int>(error), code_name(error));
}

int print_limits(bool json) {
  if (json) {
    Json rows = Json::array();
    for (const Limit& limit : limit_table()) {
      Json row = {{"stage", limit.stage}, {"name", limit.name}, {"value", limit.value}, {"unit", limit.unit}};
      row["error"] = limit.error == Code::OK ? Json(nullptr) : Json(static_cast<int>(limit.error));
      row["why"] = limit.why;
      rows.push_back(row);
    }
    print_json({{"limits", rows}});
    return 0;
  }
  fmt::print("{:<8} {:<18} {:>12} {:<9} {:<18} {}\n", "stage", "limit", "value", "unit", "error", "why");
  for (const Limit& limit : limit_table()) {
    fmt::print("{:<8} {:<18} {:>12} {:<9} {:<18} {}\n", limit.stage, limit.name, limit.value, limit.unit,
               error_text(limit.error), limit.why);
  }
  return 0;
}

}  // namespace

Verb add_limits(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("limits", "show the limits on models, engines and their sizes");
  command->add_flag("--json", *json, "print one JSON object on stdout");
  command->footer(
      "What goes past a limit gets the error of its row; \"-\" is no error, the work is left for run time.\n"
      "Example: deepjit limits --json");
  return {command, [json] { return print_limits(*json); }};
}

}  // namespace deepjit::cli
