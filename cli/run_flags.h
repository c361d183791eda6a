// The options of verbs that run a model many times: what to run, what to feed it, how often, in how many contexts.
#pragma once

#include "cli/inputs.h"
#include "cli/model.h"

namespace deepjit::cli {

struct RunFlags {
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> shapes;
  int iterations = 0;
  double seconds = 3;
  int contexts = 1;
  bool json = false;
  BuildFlags build;

  // `most_iterations` is the upper end of what --iterations takes.
  void add_to(CLI::App& app, int most_iterations);
};

// A model that is ready to run, and its inputs.
struct Fed {
  Model model;
  std::vector<Tensor> inputs;
};
Fed open_and_feed(const RunFlags& flags);

// The cores are shared out among the contexts unless the user says how many threads each takes.
int threads_per_context(const RunFlags& flags, const Model& model);

}  // namespace deepjit::cli
