// NumPy's .npz files: several tensors by name.
//
// Reads what numpy.savez writes, a zip file of .npy files that are not compressed. A bad file throws Error(ARGUMENT),
// a missing one FILE_NOT_FOUND.
#pragma once

#include <map>
#include <string>

#include "base/tensor.h"

namespace deepjit::cli {

std::map<std::string, Tensor> read_npz(const std::string& path);

}  // namespace deepjit::cli
