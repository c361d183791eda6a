// The region of a program's step: what a kernel generated for it would compute. And the kernels of a combo.
#pragma once

#include "codegen/region/region.h"
#include "program/program.h"

namespace deepjit {

// Of a region step, its steps; of any other step, itself. Shapes are the symbolic ones of the program.
Region region_of_step(const Program& program, const Step& step);

// One region of a combo (program/combo.h).
struct ComboPart {
  size_t place = 0;               // among the steps of the combo's block
  const Step* step = nullptr;     // the region
  std::vector<int64_t> operands;  // of the region, as operands of the combo: its inputs, then its outputs
};

// In order; none for a step that is no combo. Views between the regions are looked through.
std::vector<ComboPart> parts_of_combo(const Program& program, const Step& step);

}  // namespace deepjit
