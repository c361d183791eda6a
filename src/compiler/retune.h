// Tuning a saved engine on the machine that is here: what `deepjit tune` does.
//
// The program goes back to what lowering made of the model: combos are parted, constants that are kept in packed form
// only are unpacked, no step has a tactic, the ledger is lowering's. Then it goes through the stages tune and plan of a
// build. With one lockfile that gives the bytes that the build gives. So an engine that was built without its GPU takes
// measured choices where there is one, and one from another machine those of this one.
#pragma once

#include "compiler/build.h"

namespace deepjit {

// Of `options` count: device (one of the engine's kind; "": the first), targets ("": the GPU that is here), threads (0:
// the engine's, at most as many as are here), ranges (not beyond the engine's own), disabled_passes
// ("combos"; what the build left out stays out), tune_cache, lock_text, force_tactic, tolerance, budget_s, progress,
// log. Throws DEVICE_MISSING and the like where nothing can be measured, ENGINE_INCOMPATIBLE for a device of another
// kind, ARGUMENT for options that do not fit the engine.
BuildResult tune_engine(EngineFile engine, BuildOptions options);

}  // namespace deepjit
