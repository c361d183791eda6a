// What tests ask the stand-in cuDNN (fake_cudnn.cpp) beside the library's own functions; found with dlsym.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Since the last take.
struct fake_cudnn_counts {
  uint64_t handles = 0;       // made
  uint64_t plans_made = 0;    // compiled, those that came to nothing too
  uint64_t plans_loaded = 0;  // from text
  uint64_t most_at_once = 0;  // plans under way
  uint64_t clashes = 0;       // calls with a handle that another thread was using
  uint64_t executed = 0;
};
fake_cudnn_counts fake_cudnn_take_counts();
// Each plan that is compiled waits until another one is under way, for some seconds at most.
void fake_cudnn_wait_for_company(int wanted);
}
