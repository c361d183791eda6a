// Verifying and timing one candidate kernel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "tune/device_bench.h"
#include "tune/tuner.h"
#include "tune/wide_region.h"

namespace deepjit {

// Inputs and outputs for one task, with the reference's results.
class Workbench {
 public:
  // `adversarial` mixes special values into the floating-point inputs. `rows`: the step reduces, so that an element of
  // its result stands for a row. With a device, kernels run there; the reference runs on the host. `cold`: constants
  // are timed as they lie there in a large program.
  Workbench(const Step& step, const TuneTask& task, bool adversarial, uint64_t seed, bool rows = false,
            device::Device* device = nullptr, bool cold = false);

  // A region's values are rounded where it stores them (wide_region.h). Of a large result on a device, a part is
  // computed (part_reference.h), which errors() looks at.
  void run_reference(const StepShape& shape);
  void run(Kernel& kernel);
  // Before a kernel runs on a device: gives it what its tactic packed.
  void bring(const Kernel& kernel, const Tactic& tactic) {
    if (device_ != nullptr) device_->bring(kernel, tactic);
  }
  // Learns how far the results of a region depend on rounding. False when there is nothing new to learn.
  bool learn_sway();
  // Microseconds of one of `repeats` runs in a row.
  double sample(Kernel& kernel, int repeats);
  bool on_device() const { return device_ != nullptr; }
  // Runs the kernel until a device has its clocks up; the host needs no such thing.
  void warm_up(Kernel& kernel);
  // What an error is relative to. OUTPUT: the largest value of the output. ELEMENT: the value itself, or the largest of
  // its row where the step goes over rows (a sum's error is that of its terms: see docs/codegen.md).
  enum class Scale { OUTPUT, ELEMENT };
  struct Errors {
    double largest = 0;  // infinity when NaNs or infinities differ
    bool pass = true;
    double wrong = 0;               // the largest that is not allowed
    double allowed = 0;             // there
    bool or_one_unit = false;       // there too
    DType type = DType::UNDEFINED;  // of that output
  };
  // The last run against the reference; `tolerance` by the type of an output. A 16-bit float may always differ by one
  // unit in its last place, which is more than 1e-3 of most bfloat16 numbers: results that are nearly the same may lie
  // on two sides of a tie. So may what a region quantizes to integers. `by_steps`: against the reference's steps one by
  // one, each of which rounds.
  //
  // Once the sway is known, an error passes as far as the reference's own results move when its values are rounded
  // differently.
  // Kernels that add in the same order have the same bits: those are judged once.
  Errors errors(Scale scale, const std::function<double(DType)>& tolerance, bool by_steps = false);

 private:
  void run_on_host(Kernel& kernel);
  void set_indices_to_zero(const StepShape& shape);
  std::vector<Tensor> outputs() const;  // as they are now
  std::vector<Tensor> checked() const;  // of these, what the reference computed
  Errors errors_of(const std::vector<Tensor>& results, Scale scale, const std::function<double(DType)>& tolerance,
                   bool by_steps) const;
  std::vector<Tensor> results_of(const StepShape& on_host);

  std::unique_ptr<DeviceBench> device_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> expected_;
  std::vector<Tensor> expected_by_steps_;  // of a region that computes in 16 bits
  std::unique_ptr<WideRegion> reference_;
  std::vector<std::vector<double>> sway_;  // of each output's elements; empty: not known
  struct Judged {
    Scale scale = Scale::OUTPUT;
    bool by_steps = false, sways = false;
    std::vector<Tensor> outputs;
    Errors errors;
  };
  std::optional<Judged> judged_;  // the last
  std::vector<void*> input_addresses_;
  std::vector<void*> output_addresses_;
  std::vector<char> scratch_;
  int64_t places_ = 0;      // of the outputs' first dim that are checked, the last; 0: all
  bool rows_ = false;       // the step goes over rows
  bool quantizes_ = false;  // it is a region that does
};

struct Timing {
  double centre_us = 0;  // lower quartile: other work on the machine only ever adds time
  double spread_us = 0;  // from there to the median
};

// Times all kernels in interleaved rounds. A kernel that is far slower than the best is measured once.
// `parallel`: kernels run on several threads. Other load then delays most samples, as one late thread holds up all,
// and the fastest sample is taken instead of the lower quartile.
// `out_of_time` ends the rounds early.
std::vector<Timing> time_kernels(Workbench& bench, const std::vector<Kernel*>& kernels, bool parallel = false,
                                 const std::function<bool()>& out_of_time = {});

}  // namespace deepjit
