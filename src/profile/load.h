// Contexts that keep running in threads of their own while one is measured.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "runtime/engine.h"

namespace deepjit::profile {

class Load {
 public:
  // `inputs` must outlive it. A context that fails stops: the one that is measured tells of failures.
  Load(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs, int contexts, int threads);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace deepjit::profile
