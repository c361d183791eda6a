// The doctor: what is wrong with an exported model, or with the settings it is going to be built and run with.
//
// diagnose() runs every rule of rules() over the model as it was exported (the protobuf, with the types that
// inference gives it) and returns findings; a model that cannot be imported is a finding, too. fix() mends what
// has a mend and keeps the result only when it computes what the model computed before. Findings are about
// structure, never about names. Throws Error when the bytes are no ONNX model or an argument is bad.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "doctor/settings.h"

namespace deepjit::doctor {

class Checkup;
class Editor;

enum class Severity { NOTE, WARNING, ERROR };
const char* severity_name(Severity severity);  // "note", "warning", "error"

struct Rule {
  const char* id;    // "DJ201"; stable, never used again for anything else
  const char* name;  // "transpose-pair"
  Severity severity;
  const char* title;
  const char* why;  // why it hurts
  const char* fix;  // what to do
  void (*check)(Checkup&);
  bool fixable;  // whether its findings can have a mend
};

// All rules, by id. docs/doctor.md is made from this table.
std::span<const Rule> rules();

struct Finding {
  const Rule* rule = nullptr;
  Severity severity = Severity::NOTE;  // the rule's, or a milder one
  std::string node;                    // the node's name, or Op_index; empty when it is about no node
  std::string op;
  std::string value;                // a value, weight or input; may be empty
  std::string message;              // what is wrong here
  size_t nodes = 0;                 // nodes that it costs
  int64_t bytes = 0;                // bytes that it costs
  double time_us = 0;               // with Options::measure: what the nodes took
  std::vector<std::string> values;  // outputs of the nodes it costs
  std::function<void(Editor&)> mend;

  bool fixable() const { return mend != nullptr; }
};

struct Options {
  std::string folder;  // of external data; empty: none
  Settings settings;
  std::vector<std::map<std::string, Dims>> traffic;  // shapes that will be fed, each by input name
  std::set<std::string> ignored;                     // rule ids
  bool measure = false;                              // builds the model for the CPU and times its nodes
};

struct Report {
  std::vector<Finding> findings;  // by severity, the worst first, then by rule
  size_t count(Severity severity) const;
  std::string measured;  // why nothing was measured, when that was asked for; or empty
};

Report diagnose(std::span<const uint8_t> model, const Options& options);

struct FixResult {
  std::string model;               // the mended model's bytes; empty when nothing is to be written
  std::vector<Finding> mended;     // what was found and is gone
  std::vector<Finding> left;       // findings of the mended model
  std::vector<std::string> steps;  // what the proof compared
  std::string reason;              // why there is no mended model
  bool external_data = false;      // the model refers to files beside it, so it has to stay in their folder
};

// Mends all fixable findings and proves the result on random inputs: as before, bit for bit where only structure
// changed, else within 1e-5. Mends of rules that change what a model means (training mode, invalid nodes) come
// first, and the proof starts after them.
FixResult fix(std::span<const uint8_t> model, const Options& options);

// Parses "x=1x3x224x224,y=1x8" repeated into traffic; shapes of one input in several entries are all expected.
// Throws Error(ARGUMENT).
std::vector<std::map<std::string, Dims>> parse_traffic(const std::vector<std::string>& texts);

}  // namespace deepjit::doctor
