// What ran on the devices of this process while recording was on: kernels, copies and fills, with their times.
//
// CUPTI belongs to the whole process: one recorder at a time, and what other threads launch is recorded too.
#pragma once

#include <string>
#include <vector>

#include "profile/cupti/library.h"

namespace deepjit::profile::cupti {

struct Activity {
  enum class Kind { KERNEL, COPY, SET };
  Kind kind = Kind::KERNEL;
  std::string name;  // of a kernel, as the compiler mangled it
  uint8_t way = 0;   // of a copy: kHostToDevice, kDeviceToHost or another
  uint32_t stream = 0;
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

class Recorder {
 public:
  // Starts recording. Throws LIBRARY_MISSING or STATE with the reason where that is not possible.
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // What ended since the last call, in the order of the starts. Streams must have been waited for.
  std::vector<Activity> take();
  // On the clock of the activities.
  uint64_t now_ns() const;

 private:
  const Library& library_;
};

// A record as it lies in CUPTI's buffers; false when it is of another kind.
bool read_record(const uint8_t* record, Activity& activity);

}  // namespace deepjit::profile::cupti
