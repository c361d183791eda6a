// The build side of a provider whose kernels are those of a library of the GPU: where there is a GPU the library is
// asked what it proposes for the step, each of which is a variant; elsewhere one variant leaves the choice to the run.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit {

class LibraryOfferer : public Offerer {
 public:
  struct Words {
    const char* provider = nullptr;
    const char* unasked = nullptr;  // the variant where no GPU could be asked
    const char* missing = nullptr;  // what to say where there is no library
    const char* install = nullptr;  // and what to do
    const char* nothing = nullptr;  // what to say where it proposes nothing
  };
  explicit LibraryOfferer(Words words) : words_(words) {}

  std::string name() const final { return words_.provider; }
  std::string device() const final { return "cuda"; }
  std::string measured_with() const final;
  Offer offer(const StepShape& shape) const final;

 protected:
  // Of the library here; "" where there is none.
  virtual std::string library_version() const = 0;
  // Is the op of its kinds? Who else refuses others knows better why.
  virtual bool concerns(const Step& step) const = 0;
  // Why the library cannot be asked for the step; "" when it can.
  virtual std::string obstacle(const StepShape& shape) const = 0;
  // What it proposes on shape.device, best guess first. INTERNAL where it does not take the step. Several threads may
  // ask at once.
  virtual std::vector<std::string> proposals(const StepShape& shape) const = 0;

 private:
  Words words_;
};

}  // namespace deepjit
