// What tests ask the stand-in driver (fake_cuda.cpp) beside the driver's own functions. All of these are exported by
// the library and found with dlsym. It needs a device that is open, and is gone with the process.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Since the last take.
struct fake_cuda_counts {
  uint64_t bytes_in = 0;      // host to device
  uint64_t bytes_out = 0;     // device to host
  uint64_t bytes_within = 0;  // on the device, when they were copied
  uint64_t launches = 0;      // kernels that ran, those of graphs too
  uint64_t graphs_made = 0;
  uint64_t graphs_updated = 0;
  uint64_t graphs_launched = 0;
  uint64_t graphs_uploaded = 0;
  uint64_t captures = 0;
  uint64_t waits = 0;  // of a stream for an event
};
fake_cuda_counts fake_cuda_take_counts();
// Bytes of device memory that are allocated now.
uint64_t fake_cuda_allocated();

constexpr int FAKE_CUDA_HERE = 0, FAKE_CUDA_PINNED = 1, FAKE_CUDA_ELSEWHERE = 2;
void* fake_cuda_allocate(size_t bytes, int kind);
void fake_cuda_free(void* memory);

// Called after each thing that a stream did: kernels by their names, copies and fills. Times are of the steady clock.
constexpr int FAKE_CUDA_KERNEL = 10, FAKE_CUDA_COPY = 1, FAKE_CUDA_FILL = 2;  // as CUPTI numbers its records
using fake_cuda_watcher = void (*)(int kind, int way, const char* name, uint32_t stream, uint64_t start_ns,
                                   uint64_t end_ns);
void fake_cuda_watch(fake_cuda_watcher watcher);

// A stream of somebody else; nullptr is the legacy one for the two below.
void* fake_cuda_stream();
// Later, when the stream comes to it.
void fake_cuda_write(void* to, const void* from, size_t bytes, void* stream);
void fake_cuda_finish(void* stream);

// A kernel of a library: `work` runs with `data` when the stream, or the replay of a graph, comes to it; graphs and
// launches share `data`, which is never given back. Returns the driver's result.
int fake_cuda_submit(void* stream, const char* name, void (*work)(void* data), void* data);
}
