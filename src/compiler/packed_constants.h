// Constants that a program keeps only in the packed forms of its tactics.
#pragma once

#include "program/program.h"

namespace deepjit {

// Gives the constant behind `packed`, an operand that the step's tactic packed, its plain data where it has none.
// Throws ENGINE_INCOMPATIBLE for a form that this build cannot read.
void unpack_constant(Program& program, const Step& step, const PackedOperand& packed);

}  // namespace deepjit
