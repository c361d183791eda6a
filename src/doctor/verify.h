// Proof that a mended model computes what the model computed: both are built for the CPU and run on random inputs.
#pragma once

#include <string>
#include <vector>

#include "doctor/doctor.h"

namespace deepjit::doctor {

struct Proof {
  std::string failure;             // why the models are not known to be equal; empty when they are
  std::vector<std::string> steps;  // what was compared
};

struct ProofRequest {
  std::string before, after;  // the bytes of both models
  bool exact = false;         // without passes, demand the same bits
  bool freed_batch = false;   // feed the mended model two samples at once as well
};

Proof prove_equal(const ProofRequest& request, const Options& options);

}  // namespace deepjit::doctor
