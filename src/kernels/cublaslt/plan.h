// A product on a device: its descriptors, the algorithms that cuBLASLt proposes for it, and one of them at work.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/cublaslt/algorithm.h"
#include "kernels/cublaslt/library.h"
#include "kernels/cublaslt/product.h"

namespace deepjit::cublaslt {

constexpr size_t kMostScratch = size_t{32} << 20;

class Plan {
 public:
  // Throws LIBRARY_MISSING where there is no cuBLASLt. The device must outlive the plan.
  Plan(device::Device& device, Product product);

  // What the library proposes, best guess first; only what choose() takes.
  std::vector<Algorithm> proposals(int most);
  // False when this library or GPU does not have it.
  bool choose(const Algorithm& algorithm);
  // Takes the first proposal; false when there is none.
  bool choose_first();

  size_t scratch_bytes() const { return scratch_; }
  void run(const KernelArgs& args);

 private:
  using OwnedDesc = std::unique_ptr<DescObject, Status (*)(Desc)>;
  using OwnedLayout = std::unique_ptr<LayoutObject, Status (*)(Layout)>;
  OwnedDesc make_desc() const;
  OwnedLayout make_layout(int64_t rows, int64_t columns, int64_t stride) const;
  std::vector<Found> ask(int most) const;
  std::optional<Found> check_algo(const Algo& algo) const;
  Algorithm describe(const Algo& algo) const;
  std::optional<Algo> rebuild(const Algorithm& algorithm) const;

  device::Device& device_;
  Product product_;
  const Library& library_;
  std::shared_ptr<void> handle_;
  OwnedDesc desc_{nullptr, nullptr};
  OwnedLayout a_{nullptr, nullptr}, b_{nullptr, nullptr}, c_{nullptr, nullptr}, y_{nullptr, nullptr};
  Algo algo_;
  size_t scratch_ = 0;
};

}  // namespace deepjit::cublaslt
