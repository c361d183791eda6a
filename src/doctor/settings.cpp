#include "doctor/settings.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "compiler/build.h"
#include "compiler/option_text.h"

namespace deepjit::doctor {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMiB = 1 << 20;

[[noreturn]] void bad(const std::string& what, const std::string& hint = "") {
  throw Error(Code::ARGUMENT, "settings: " + what, hint);
}

// "x:1x3x224x224,y:1x8"; names may hold colons of their own and quotes around them.
std::map<std::string, Dims> shapes_from_text(const std::string& text) {
  std::map<std::string, Dims> shapes;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, end - start);
    const size_t colon = word.rfind(':');
    if (colon == std::string::npos || colon == 0) bad("\"" + word + "\" is not NAME:SHAPE");
    std::string name = word.substr(0, colon);
    if (name.size() > 2 && (name.front() == '\'' || name.front() == '"')) name = name.substr(1, name.size() - 2);
    shapes[name] = parse_shape(word.substr(colon + 1));
    start = end + 1;
  }
  return shapes;
}

// "512", "512M", "2G", "1024B"; a number alone is MiB.
int64_t memory_from_text(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  double scale = unit.empty() || unit == "M" || unit == "MiB" ? kMiB : 0.0;
  if (unit == "B") scale = 1;
  if (unit == "K" || unit == "KiB") scale = 1024;
  if (unit == "G" || unit == "GiB") scale = 1024.0 * kMiB;
  if (end == text.c_str() || scale == 0 || !(value >= 0) || value * scale > 1e18) {
    bad("\"" + text + "\" is not an amount of memory", "write it like 512, 512M or 2G");
  }
  return static_cast<int64_t>(value * scale);
}

// "workspace:512,tacticSharedMem:64"
void pools_from_text(const std::string& text, TensorRtSettings& trt) {
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (word.rfind("workspace:", 0) == 0) trt.workspace = memory_from_text(word.substr(10));
    start = end + 1;
  }
}

// min, opt and max stand in for each other where one is not given, as trtexec has it.
void complete_profile(TensorRtSettings& trt) {
  for (auto* to : {&trt.min, &trt.opt, &trt.max}) {
    for (const auto* from : {&trt.opt, &trt.max, &trt.min}) to->insert(from->begin(), from->end());
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool any = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
    } else if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? 0 : c;
      any = true;
    } else if (quote == 0 && std::isspace(static_cast<unsigned char>(c))) {
      if (any) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (quote != 0) bad("a quote is not closed in the command line");
  if (any) words.push_back(word);
  return words;
}

int64_t whole(const std::string& name, const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) {
    bad("\"" + name + "\" needs a whole number, got \"" + text + "\"");
  }
  return std::stoll(text);
}

// One option by its own name, with its value as text. Options that no rule looks at are passed over.
void set_option(const std::string& name, const std::string& value, TensorRtSettings& trt) {
  const bool on = value.empty() || value == "true" || value == "1";
  if (name == "int8") trt.int8 = on;
  if (name == "fp16") trt.fp16 = on;
  if (name == "best") trt.best = on;
  if (name == "stronglyTyped") trt.strongly_typed = on;
  if (name == "calib") trt.calibration = value;
  if (name == "onnx") trt.model = value;
  if (name == "minShapes") trt.min = shapes_from_text(value);
  if (name == "optShapes") trt.opt = shapes_from_text(value);
  if (name == "maxShapes") trt.max = shapes_from_text(value);
  if (name == "workspace") trt.workspace = memory_from_text(value);
  if (name == "memPoolSize") pools_from_text(value, trt);
  if (name == "threads" && !value.empty()) trt.threads = whole(name, value);
  if (name == "execution_contexts") trt.execution_contexts = whole(name, value);
}

void parse_command(const std::string& text, TensorRtSettings& trt) {
  for (const std::string& word : words_of(text)) {
    if (word.rfind("--", 0) != 0) continue;  // the program itself, and variables before it
    const size_t equals = word.find('=');
    // trtexec's own --threads takes no number and makes a context for each.
    if (word == "--threads") continue;
    set_option(word.substr(2, equals == std::string::npos ? equals : equals - 2),
               equals == std::string::npos ? "" : word.substr(equals + 1), trt);
  }
}

// A value of JSON as trtexec would have it: shapes and pools may be objects.
std::string text_of(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
  if (value.is_number()) return std::to_string(value.get<double>());
  if (!value.is_object()) bad("\"" + name + "\" has a value of the wrong type");
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += (text.empty() ? "" : ",") + key + ":";
    if (!item.is_array()) {
      text += text_of(name, item);
      continue;
    }
    for (size_t i = 0; i < item.size(); ++i) text += (i ? "x" : "") + text_of(name, item[i]);
  }
  return text;
}

void parse_tensorrt(const Json& json, TensorRtSettings& trt) {
  if (!json.is_object()) bad("\"tensorrt\" must be an object");
  for (const auto& [name, value] : json.items()) {
    if (value.is_null() || value.is_array()) continue;
    set_option(name, text_of(name, value), trt);
  }
}

void parse_onnxruntime(const Json& json, OnnxRuntimeSettings& ort) {
  if (!json.is_object()) bad("\"onnxruntime\" must be an object");
  if (json.contains("providers")) {
    const Json& list = json["providers"];
    if (!list.is_array()) bad("\"providers\" must be a list");
    for (const Json& item : list) {
      // A provider with options is a pair of name and options.
      const Json& name = item.is_array() && !item.empty() ? item[0] : item;
      if (!name.is_string()) bad("\"providers\" must hold names");
      ort.providers.push_back(name.get<std::string>());
    }
  }
  const auto text = [&](const char* name, std::string& to) {
    if (json.contains(name)) to = text_of(name, json[name]);
  };
  const auto number = [&](const char* name, int64_t& to) {
    if (json.contains(name)) to = whole(name, text_of(name, json[name]));
  };
  text("graph_optimization_level", ort.graph_optimization_level);
  text("optimized_model_filepath", ort.optimized_model_filepath);
  number("threads_sharing_session", ort.threads_sharing_session);
  number("threads_sharing_io_binding", ort.threads_sharing_io_binding);
}

}  // namespace

void parse_settings(const std::string& text, Settings& settings) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) bad("they are empty");
  if (text[first] != '{') {
    if (text.find("--") == std::string::npos) {
      bad("neither JSON nor a trtexec command line", "see docs/doctor.md for both");
    }
    if (!settings.tensorrt) settings.tensorrt.emplace();
    parse_command(text, *settings.tensorrt);
    complete_profile(*settings.tensorrt);
    return;
  }
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) bad("the JSON is not valid");
  if (!json.contains("tensorrt") && !json.contains("onnxruntime")) {
    bad("the JSON has neither \"tensorrt\" nor \"onnxruntime\"", "see docs/doctor.md for the form");
  }
  if (json.contains("tensorrt")) {
    if (!settings.tensorrt) settings.tensorrt.emplace();
    parse_tensorrt(json["tensorrt"], *settings.tensorrt);
    complete_profile(*settings.tensorrt);
  }
  if (json.contains("onnxruntime")) {
    if (!settings.onnxruntime) settings.onnxruntime.emplace();
    parse_onnxruntime(json["onnxruntime"], *settings.onnxruntime);
  }
}

}  // namespace deepjit::doctor
