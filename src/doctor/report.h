// A report as text for people, as JSON, and as SARIF 2.1.0 for code scanning.
#pragma once

#include <string>

#include "doctor/doctor.h"

namespace deepjit::doctor {

// Findings grouped by rule: what, where, why, what to do, and what it costs.
std::string report_text(const Report& report, size_t most_per_rule);
// A JSON array of findings; the keys are those of docs/doctor.md.
std::string findings_json(const std::vector<Finding>& findings);
// `model` is the path that results are about.
std::string report_sarif(const Report& report, const std::string& model, const std::string& version);

}  // namespace deepjit::doctor
