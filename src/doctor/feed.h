// Ways to feed a model with made-up inputs: shapes and numbers that it runs with, found by trying.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/shapes.h"
#include "doctor/doctor.h"
#include "runtime/engine.h"

namespace deepjit::doctor {

// One way to feed the model: shapes, and the number that integers of one element get.
struct Trial {
  InputShapes shapes;
  std::optional<int64_t> number;  // nothing: 0 or 1, at random
};

// Ways that the model runs with, one for each number that works, the traffic's shapes first. Throws what went wrong
// when there is none.
std::vector<Trial> working_trials(const std::shared_ptr<const Engine>& engine, const Options& options);

// One tensor an input, in the program's order; undefined for an input with a default.
std::vector<Tensor> make_inputs(const Program& program, const Trial& trial, uint32_t seed);

// Runs once; `inputs` are in the order of `order`, a program with the same inputs by name. Outputs by name.
std::map<std::string, Tensor> run_once(const std::shared_ptr<const Engine>& engine, const Program& order,
                                       const std::vector<Tensor>& inputs);

// "x=[1,3,224,224], rate=[] of 16000".
std::string trial_text(const Program& program, const Trial& trial);

}  // namespace deepjit::doctor
