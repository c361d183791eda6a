// One verb of the command line: its options, and the job once they are parsed.
//
// Each verb is one file that offers add_<verb>(app): it registers a subcommand and returns what to run when
// that subcommand was chosen. A job returns the exit code and throws Error on failure; results go to stdout,
// everything else to stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace deepjit::cli {

using Json = nlohmann::ordered_json;

struct Verb {
  CLI::App* command = nullptr;
  std::function<int()> job;
};

Verb add_build(CLI::App& app);
Verb add_run(CLI::App& app);
Verb add_bench(CLI::App& app);
Verb add_profile(CLI::App& app);
Verb add_inspect(CLI::App& app);
Verb add_compare(CLI::App& app);
Verb add_doctor(CLI::App& app);
Verb add_tune(CLI::App& app);
Verb add_limits(CLI::App& app);
Verb add_devices(CLI::App& app);

// Prints one JSON object on stdout. Bytes that are not UTF-8 become replacement characters.
void print_json(const Json& json);

}  // namespace deepjit::cli
