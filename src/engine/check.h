// What the runtime takes for granted about a program, checked for one that came from a file.
//
// Every index is in range; steps have operators of this build with the operands they need; blocks form a tree of
// limited depth; each buffer is written once, before it is read, and no constant is ever written.
#pragma once

#include "program/program.h"

namespace deepjit {

// Throws ENGINE_RANGE, or ENGINE_INCOMPATIBLE for an operator that this build does not have.
void check_program(const Program& program);
// The same for the programs of all shape ranges: their inputs and outputs must be alike.
void check_programs(const Program& program);

// An entry of a ledger against the program that it is about. Throws ENGINE_RANGE.
void check_ledger_entry(const Program& program, const LedgerEntry& entry);

}  // namespace deepjit
