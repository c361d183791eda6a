// deepjit run: one inference, its outputs as .npy files and a line about each.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/npy.h"
#include "cli/text.h"
#include "cli/values.h"
#include "cli/verb.h"

namespace deepjit::cli {

namespace {

struct RunVerb {
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> shapes;
  std::string folder;
  bool json = false;
  BuildFlags flags;

  int run() const;
};

// The output's name as a file name that stays inside the folder; made unique.
std::string file_name(const std::string& output, std::set<std::string>& taken) {
  std::string name;
  for (char c : output) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string("._-+").find(c) != std::string::npos;
    name += plain ? c : '_';
  }
  if (name.empty() || name[0] == '.' || name[0] == '-') name = "_" + name;
  if (name.size() > 200) name.resize(200);
  std::string unique = name;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
  return unique + ".npy";
}

// Where outputs go: files in a folder, each with a name of its own.
class Files {
 public:
  explicit Files(const std::string& folder) : folder_(folder) {}
  // Writes the tensor and returns its path; "" without a folder.
  std::string write(const std::string& name, const TensorView& view) {
    if (folder_.empty()) return "";
    std::string file = (std::filesystem::path(folder_) / file_name(name, taken_)).string();
    write_npy(file, view);
    return file;
  }

 private:
  std::string folder_;
  std::set<std::string> taken_;
};

std::string element_name(const std::string& name, int64_t i) { return name + "." + std::to_string(i); }

bool has_numbers(const TensorView& view) { return view.dtype != DType::STRING && view.count() > 0; }

Json describe(const std::string& name, const TensorView& view, Files& files) {
  Json output = {{"name", name}, {"dtype", dtype_name(view.dtype)}, {"shape", Json::array()}};
  for (int64_t d : view.dims) output["shape"].push_back(d);
  if (is_collection(view.dtype)) {
    output["elements"] = Json::array();
    for (int64_t i = 0; i < view.count(); ++i) {
      output["elements"].push_back(describe(element_name(name, i), view.as<Tensor>()[i].view(), files));
    }
    return output;
  }
  if (has_numbers(view)) {
    const Summary s = summarize(view);
    output["min"] = s.min;
    output["max"] = s.max;
    output["mean"] = s.mean;
    output["not_finite"] = s.not_finite;
  }
  const std::string file = files.write(name, view);
  output["file"] = file.empty() ? Json(nullptr) : Json(file);
  return output;
}

void print_output(const std::string& name, const TensorView& view, Files& files) {
  std::string text = fmt::format("{}: {}{}", name, dtype_name(view.dtype), view.dims.to_string());
  if (is_collection(view.dtype)) {
    fmt::print("{}\n", text);
    for (int64_t i = 0; i < view.count(); ++i) {
      print_output(element_name(name, i), view.as<Tensor>()[i].view(), files);
    }
    return;
  }
  if (has_numbers(view)) {
    const Summary s = summarize(view);
    text += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean);
    if (s.not_finite > 0) text += fmt::format("  {} of {} not finite", s.not_finite, view.count());
  }
  const std::string file = files.write(name, view);
  if (!file.empty()) text += "  -> " + file;
  fmt::print("{}\n", text);
}

void make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(Code::DISK_FULL, "cannot make the folder \"" + folder + "\": " + failed.message());
}

int RunVerb::run() const {
  const std::vector<InputSpec> specs = parse_inputs(inputs);
  const std::map<std::string, Dims> fixed = fixed_shapes(specs, parse_shapes(shapes));
  const Model loaded = open_model(model, flags, fixed);
  const std::vector<Tensor> fed = make_inputs(loaded.program(), specs, fixed, false);
  Context context(loaded.engine, flags.threads);
  std::vector<TensorView> outputs;
  const auto start = std::chrono::steady_clock::now();
  context.run(views_of(fed), outputs);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (!folder.empty()) make_folder(folder);
  Files files(folder);
  Json described = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = loaded.program().outputs[i].name;
    if (json) {
      described.push_back(describe(name, outputs[i], files));
    } else {
      print_output(name, outputs[i], files);
    }
  }
  if (json) {
    print_json({{"model", model},
                {"shapes", shape_texts(loaded.program(), fed)},
                {"threads", context.threads()},
                {"outputs", described},
                {"time_us", us},
                {"build_s", loaded.built ? Json(loaded.build_s) : Json(nullptr)},
                {"load_s", loaded.load_s}});
  } else {
    fmt::print("time {} (first run, with its preparation), {} threads\n", time_text(us), context.threads());
  }
  return 0;
}

}  // namespace

Verb add_run(CLI::App& app) {
  auto verb = std::make_shared<RunVerb>();
  CLI::App* command = app.add_subcommand("run", "run an engine or a model once");
  command->add_option("model", verb->model, "the engine or the ONNX model")->required()->option_text("M.dje|M.onnx");
  command->add_option("-i,--input", verb->inputs, kInputDoc)->option_text("NAME=DATA")->allow_extra_args(false);
  command->add_option("--shapes", verb->shapes, kShapesDoc)->option_text("NAME=SHAPE")->allow_extra_args(false);
  command->add_option("-o,--output", verb->folder, "the folder for NAME.npy of each output")->option_text("DIR");
  command->add_flag("--json", verb->json, "print one JSON object on stdout");
  verb->flags.add_to(*command);
  command->footer("Example: deepjit run m.dje -i x=x.npy -o out");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
