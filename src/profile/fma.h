// Fused multiply-adds as fast as one thread can, with the widest vectors of this CPU.
#pragma once

namespace deepjit::profile {

// Does `rounds` rounds over registers, and says how many operations these were (two a multiply-add and lane). `sink`
// takes 16 floats, so that the work is not left out.
double run_fma(int rounds, float* sink);

}  // namespace deepjit::profile
