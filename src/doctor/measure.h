// What a finding's nodes cost on this machine.
#pragma once

#include <map>
#include <span>
#include <string>

#include "doctor/doctor.h"

namespace deepjit::doctor {

// What the node of each value takes, in microseconds: the model is built without passes, tuned, and run on made-up
// inputs (of the traffic's shapes where they are given). Throws Error when it does not build or run.
std::map<std::string, double> measure_nodes(std::span<const uint8_t> model, const Options& options);

}  // namespace deepjit::doctor
