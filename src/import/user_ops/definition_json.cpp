// Definitions of user ops as JSON, for programs that have no code of their own to register them.
#include <nlohmann/json.hpp>
#include <set>

#include "import/user_ops/definition.h"

namespace deepjit {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kForm =
    "the form is {\"ops\": [{\"name\": \"my.ops::Swish\", \"inputs\": [\"x\"], \"attributes\": {\"alpha\": 1}, "
    "\"expression\": \"x * sigmoid(alpha * x)\"}]}";

[[noreturn]] void bad(const std::string& what) { throw Error(Code::ARGUMENT, what, kForm); }

std::string text_of(const Json& value, const std::string& key) {
  if (!value.is_string()) bad("\"" + key + "\" must be a text");
  return value.get<std::string>();
}

// A list of texts; one stands for itself.
std::vector<std::string> texts_of(const Json& value, const std::string& key) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) bad("\"" + key + "\" must be a text or a list of texts");
  std::vector<std::string> texts;
  for (const Json& one : value) texts.push_back(text_of(one, key));
  return texts;
}

std::string lines_of(const Json& value, const std::string& key) {
  std::string text;
  for (const std::string& line : texts_of(value, key)) text += (text.empty() ? "" : "\n") + line;
  return text;
}

void read_attributes(const Json& value, UserOpDefinition& out) {
  if (!value.is_object()) bad("\"attributes\" must be an object of defaults");
  for (const auto& [name, given] : value.items()) {
    if (!given.is_number() && !given.is_null())
      bad("the default of attribute \"" + name + "\" must be a number or null");
    out.attributes[name] = given.is_null() ? std::nullopt : std::optional<double>(given.get<double>());
  }
}

UserOpDefinition definition_of(const Json& json) {
  if (!json.is_object()) bad("an op must be an object");
  UserOpDefinition out;
  for (const auto& [key, value] : json.items()) {
    if (key == "name") {
      out.name = text_of(value, key);
    } else if (key == "inputs") {
      out.inputs = texts_of(value, key);
    } else if (key == "outputs") {
      out.outputs = texts_of(value, key);
    } else if (key == "attributes") {
      read_attributes(value, out);
    } else if (key == "expression") {
      out.expression = lines_of(value, key);
    } else if (key == "shape") {
      out.shape = text_of(value, key);
    } else {
      bad("\"" + key + "\" is not known; known are name, inputs, outputs, attributes, expression and shape");
    }
  }
  for (const char* key : {"name", "inputs", "expression"}) {
    if (!json.contains(key)) bad(std::string("\"") + key + "\" is missing");
  }
  return out;
}

// "op 2 (my.ops::Swish): " for errors; ops are counted from 1.
std::string place_of(const Json& json, size_t number) {
  std::string place = "op " + std::to_string(number);
  const bool named = json.is_object() && json.contains("name") && json["name"].is_string();
  if (named) place += " (" + json["name"].get<std::string>().substr(0, 100) + ")";
  return place + ": ";
}

// The library's message is "...: syntax error while parsing value - REASON; last read: ...".
[[noreturn]] void fail_to_parse(const std::string& text, const Json::parse_error& e) {
  std::string reason = e.what();
  const size_t dash = reason.find(" - ");
  if (dash != std::string::npos) reason = reason.substr(dash + 3);
  reason = reason.substr(0, reason.find("; last read"));
  fail_at(text, std::min(e.byte == 0 ? 0 : e.byte - 1, text.size()), "this is no JSON: " + reason, kForm);
}

Json parse(const std::string& text) {
  std::vector<std::set<std::string>> keys;  // of the open objects: the last of two equal ones would win in silence
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 8) bad("they nest too deep");  // the library builds what it reads
    if (event == Json::parse_event_t::object_start) keys.resize(static_cast<size_t>(depth) + 1);
    if (event == Json::parse_event_t::object_start) keys.back().clear();
    if (event != Json::parse_event_t::key) return true;
    const auto key = parsed.get<std::string>();
    if (!keys.at(static_cast<size_t>(depth) - 1).insert(key).second) bad("the key \"" + key + "\" is given twice");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& e) {
    fail_to_parse(text, e);
  } catch (const Json::exception& e) {
    bad(std::string("no JSON: ") + e.what());
  }
}

}  // namespace

std::vector<UserOpDefinition> parse_user_ops(const std::string& text) {
  try {
    const Json json = parse(text);
    if (!json.is_object() || json.size() != 1 || !json.contains("ops") || !json["ops"].is_array()) {
      bad("there must be an object with the list \"ops\" and nothing else");
    }
    std::vector<UserOpDefinition> out;
    for (const Json& one : json["ops"]) {
      try {
        out.push_back(definition_of(one));
      } catch (const Error& e) {
        throw e.with_prefix(place_of(one, out.size() + 1));
      }
    }
    return out;
  } catch (const Error& e) {
    throw e.with_prefix("definitions of ops: ");
  }
}

}  // namespace deepjit
