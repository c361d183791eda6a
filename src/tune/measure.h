// Verifying and timing one candidate kernel.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "tune/device_bench.h"
#include "tune/tuner.h"

namespace deepjit {

// Inputs and outputs for one task, with the reference's results.
class Workbench {
 public:
  // `adversarial` mixes special values into the floating-point inputs. With a device, kernels run there; the reference
  // runs on the host.
  Workbench(const Step& step, const TuneTask& task, bool adversarial, uint64_t seed, device::Device* device = nullptr);

  void run_reference(const StepShape& shape);
  void run(Kernel& kernel);
  // Microseconds of one of `repeats` runs in a row.
  double sample(Kernel& kernel, int repeats);
  bool on_device() const { return device_ != nullptr; }
  // Largest error of the last run against the reference: relative to the output's scale, or infinity when
  // NaNs or infinities differ. `per_element` relates each error to its own value instead.
  double error(bool per_element) const;

 private:
  void run_on_host(Kernel& kernel);

  std::unique_ptr<DeviceBench> device_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> expected_;
  std::vector<void*> input_addresses_;
  std::vector<void*> output_addresses_;
  std::vector<char> scratch_;
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
