// The deepjit program: picks the verb, runs it, and turns every failure into one error line and a hint line.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>

#include "base/error.h"
#include "cli/verb.h"

namespace deepjit::cli {

void print_json(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

namespace {

constexpr int kFailed = 2;  // compare keeps 1 for "the results differ"

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string default_hint(Code code) {
  switch (static_cast<int>(code) / 100) {
    case 1:
      return "the file is no valid ONNX model; check it with python -c \"import onnx; onnx.checker.check_model(PATH)\"";
    case 2:
      return "the model itself is at fault at the place named; see docs/errors.md";
    case 3:
      return "check the path and its permissions";
    case 4:
      return "build the engine again from its model: deepjit build M.onnx -o M.dje";
    case 5:
      return "deepjit inspect M shows the inputs, their types and their shapes";
    case 6:
      return "free some memory or disk space, or use smaller shapes";
    case 8:
      return "deepjit --help lists the verbs and their options";
    case 9:
      return "this is a bug in deepjit; please report it with the model and the command";
    default:
      return "see docs/errors.md";
  }
}

// A hint may show a place by a mark below it.
std::string lines(const std::string& text) {
  std::string out;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    out += (start == 0 ? "" : "\n") + one_line(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

int fail(const Error& error, bool json) {
  const std::string message = one_line(error.message());
  const std::string hint = lines(error.hint().empty() ? default_hint(error.code()) : error.hint());
  const std::string name(code_name(error.code()));
  fmt::print(stderr, "error[E{} {}]: {}\nhint: {}\n", static_cast<int>(error.code()), name, message, hint);
  if (json) {
    Json object;
    object["error"] = {{"code", static_cast<int>(error.code())}, {"name", name}, {"message", message}, {"hint", hint}};
    print_json(object);
  }
  return kFailed;
}

void check_verb(const std::string& verb) {
  static const std::set<std::string> later = {"report", "blame", "calibrate"};
  static const std::set<std::string> now = {"build",   "tune",    "run",    "bench",  "profile",
                                            "inspect", "compare", "doctor", "limits", "devices"};
  const std::string hint =
      "the verbs are build, tune, run, bench, profile, inspect, compare, doctor, limits and devices";
  if (later.count(verb)) throw Error(Code::ARGUMENT, "the verb \"" + verb + "\" comes later", hint);
  if (!verb.empty() && verb[0] != '-' && !now.count(verb)) {
    throw Error(Code::ARGUMENT, "there is no verb \"" + verb + "\"", hint);
  }
}

int run(int argc, char** argv) {
  CLI::App app{"deepjit compiles ONNX models into engines and runs them fast.", "deepjit"};
  app.set_version_flag("--version", std::string("deepjit ") + DEEPJIT_VERSION, "print the version");
  app.set_help_flag("-h,--help", "print this help");
  app.require_subcommand(1);
  app.footer("deepjit VERB --help explains a verb.\nExample: deepjit build m.onnx -o m.dje && deepjit bench m.dje");
  const Verb verbs[] = {add_build(app),   add_tune(app),    add_run(app),    add_bench(app),  add_profile(app),
                        add_inspect(app), add_compare(app), add_doctor(app), add_limits(app), add_devices(app)};
  if (argc > 1) check_verb(argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    const std::string verb = argc > 1 && argv[1][0] != '-' ? std::string(argv[1]) + " " : "";
    throw Error(Code::ARGUMENT, e.what(), "see deepjit " + verb + "--help");
  }
  for (const Verb& verb : verbs) {
    if (verb.command->parsed()) return verb.job();
  }
  return kFailed;
}

int guarded(int argc, char** argv) {
  bool json = false;
  for (int i = 1; i < argc; ++i) json = json || std::string(argv[i]) == "--json";
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw Error(Code::DISK_FULL, "cannot write to stdout");
    return code;
  } catch (const Error& e) {
    return fail(e, json);
  } catch (const std::bad_alloc&) {
    return fail(Error(Code::HOST_OOM, "host memory is exhausted"), json);
  } catch (const std::exception& e) {
    return fail(Error(Code::INTERNAL, e.what()), json);
  }
}

}  // namespace

}  // namespace deepjit::cli

int main(int argc, char** argv) {
  // Threads that wait for another spin for long unless told otherwise, and so keep the other from running where
  // the machine has more to do. OpenMP reads the setting when it is loaded, so the program starts once more.
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("GOMP_SPINCOUNT", "2000", 0);
    execv("/proc/self/exe", argv);  // where that fails, go on as it is
  }
  return deepjit::cli::guarded(argc, argv);
}
