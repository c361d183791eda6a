// Which step an activity of a replayed graph belongs to.
//
// A graph that was captured from one stream replays in that order, and its records do not say who launched them. So the
// steps are launched one by one once, which tells what each of them runs on the device; a replay must then give the
// same kernels in the same order. Copies and fills need not look the same: a graph may do them by kernels, or kernels
// by them.
#pragma once

#include <string>
#include <vector>

#include "profile/cupti/recorder.h"
#include "profile/records.h"

namespace deepjit::profile::cupti {

struct Launched {
  Activity::Kind kind;
  std::string name;
  Span::Kind part;
  int32_t step;
};

// Whether activity i is what launched[i] launched, for all of them; else the reason is in `why`.
bool matches(const std::vector<Launched>& launched, const std::vector<Activity>& replayed, std::string& why);

}  // namespace deepjit::profile::cupti
