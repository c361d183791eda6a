// The why-ledger after tuning: edges inside regions that run step by step join those that lowering noted, and all get
// their bytes at the shapes that were tuned for. The largest come first.
#pragma once

#include "compiler/device_steps.h"

namespace deepjit {

// `report`: nullptr when nothing was tuned. `host`: of a program for a device, its steps on the host.
void finish_ledger(Program& program, const Probe& probed, const TuneReport* report, const HostSteps& host);

}  // namespace deepjit
