// The shape ranges of an engine. Each has a program of its own, tuned at its opt: the program itself is that of the
// first range, those of the further ones are its `others`. All have the same inputs, of the same types, and outputs;
// constants that are equal lie in memory once.
//
// A run takes the range that its shapes lie in. Of several, it takes the one whose opt is nearest: dims are compared by
// their ratio, so 8 is as far from 4 as from 16. Of equally near ones it takes the first.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace deepjit {

// The program of each range, in the order that the ranges were given.
std::vector<const Program*> programs_of(const Program& program);
std::vector<Program*> programs_of(Program& program);

// Shapes by input; nullptr: not told, so that every range holds it.
using ToldShapes = std::vector<const Dims*>;
ToldShapes told_shapes(const Program& program, const std::map<std::string, Dims>& by_name);

// The program that runs these shapes; nullptr when they lie in no range.
const Program* program_at(const Program& program, const ToldShapes& shapes);
// All that hold these shapes, which need not be told in full; all there are when none does.
std::vector<const Program*> programs_at(const Program& program, const ToldShapes& shapes);
// Of those, the one with the largest max.
const Program& largest_at(const Program& program, const ToldShapes& shapes);

// "x [1,3,224,224] to [8,3,224,224], n [1] to [9]"; "any shape".
std::string range_text(const Program& program);

// Makes equal data of all programs lie in memory once: the constants, and what tactics packed, be it a kernel's code or
// a weight that the tactics of two ranges want in the same form.
void share_equal_data(Program& program);

// Bytes of all constants, plain and packed, of all programs; what lies in memory once counts once.
size_t constant_bytes(const Program& program);

}  // namespace deepjit
