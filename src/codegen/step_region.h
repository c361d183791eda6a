// The region of a program's step: what a kernel generated for it would compute.
#pragma once

#include "codegen/region.h"
#include "program/program.h"

namespace deepjit {

// Of a region step, its steps; of any other step, itself. Shapes are the symbolic ones of the program.
Region region_of_step(const Program& program, const Step& step);

}  // namespace deepjit
