#include "profile/load.h"

namespace deepjit::profile {

Load::Load(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs, int contexts, int threads) {
  for (int i = 0; i < contexts; ++i) {
    threads_.emplace_back([this, engine, inputs, threads] {
      try {
        Context context(engine, threads);
        std::vector<TensorView> outputs;
        while (!stop_) context.run(inputs, outputs);
      } catch (const std::exception&) {
      }
    });
  }
}

Load::~Load() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace deepjit::profile
