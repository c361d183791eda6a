// The internal types that share a name with a public one, under deepjit::internal.
//
// The public API lives in the inline namespace deepjit::v1, so both sides have an Engine, a Context, an Error.
// These names are taken before the public header is seen: afterwards deepjit::Engine would mean two things.
// Every file of this folder includes this header first, and nothing internal outside of it.
#pragma once

#include "compiler/build.h"
#include "compiler/option_text.h"
#include "compiler/retune.h"
#include "compiler/user_op_check.h"
#include "doctor/doctor.h"
#include "engine/format.h"
#include "passes/pipeline.h"
#include "profile/profile.h"
#include "runtime/engine.h"
#include "runtime/exclusive.h"
#include "runtime/memory_use.h"

namespace deepjit::internal {
using deepjit::build;
using deepjit::build_file;
using deepjit::BuildOptions;
using deepjit::BuildReport;
using deepjit::BuildResult;
using deepjit::Context;
using deepjit::Engine;
using deepjit::Error;
using deepjit::OutputAllocator;
using deepjit::ShapeRange;
}  // namespace deepjit::internal

#include "deepjit/deepjit.hpp"
