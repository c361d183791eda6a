// Definitions of user ops as JSON, for programs that have no code of their own to register them.
#include <nlohmann/json.hpp>

#include "import/user_ops/definition.h"

namespace deepjit {

namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void bad(const std::string& what) {
  throw Error(
      Code::ARGUMENT, "definitions of ops: " + what,
      "the form is {\"ops\": [{\"name\": \"my.ops::Swish\", \"inputs\": [\"x\"], \"attributes\": {\"alpha\": 1}, "
      "\"expression\": \"x * sigmoid(alpha * x)\"}]}");
}

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
  if (!json.is_object()) bad("each op must be an object");
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
  return out;
}

}  // namespace

std::vector<UserOpDefinition> parse_user_ops(const std::string& text) {
  int depth = 0;  // of brackets: the parser below builds what it reads
  Json json;
  try {
    json = Json::parse(text, [&](int at, Json::parse_event_t, Json&) {
      depth = std::max(depth, at);
      if (depth > 8) bad("they nest too deep");
      return true;
    });
  } catch (const Json::exception& e) {
    bad(std::string("no JSON: ") + e.what());
  }
  if (!json.is_object() || json.size() != 1 || !json.contains("ops") || !json["ops"].is_array()) {
    bad("there must be an object with the list \"ops\" and nothing else");
  }
  std::vector<UserOpDefinition> out;
  for (const Json& one : json["ops"]) out.push_back(definition_of(one));
  return out;
}

void register_user_ops(const std::string& json, bool replace) {
  std::vector<std::shared_ptr<const UserOp>> ops;
  for (const UserOpDefinition& definition : parse_user_ops(json)) {
    ops.push_back(make_user_op(definition));
    check_user_op_shapes(ops.back());
  }
  for (auto& op : ops) register_user_op(std::move(op), replace);
}

}  // namespace deepjit
