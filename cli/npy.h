// NumPy's .npy files to tensors and back.
//
// Reads versions 1 to 3, both byte orders, C and Fortran order, and fixed-width strings. Types that NumPy
// lacks are written as the next wider type that holds every value: bfloat16 and small floats as float32, packed
// integers as int8 or uint8. convert_for undoes this for an input. A bad file throws Error(ARGUMENT), a missing one
// FILE_NOT_FOUND.
#pragma once

#include <string>

#include "base/tensor.h"

namespace deepjit::cli {

Tensor read_npy(const std::string& path);
// The same of a file's bytes; `path` is its name in errors.
Tensor parse_npy(const std::string& path, const std::string& bytes);
// Writes by temporary file and rename. Throws DISK_FULL.
void write_npy(const std::string& path, const TensorView& tensor);

// The tensor as `wanted` when it is the stand-in for a type that NumPy lacks; else unchanged. Throws Error(ARGUMENT)
// for a number outside a packed type's range.
Tensor convert_for(const Tensor& tensor, DType wanted);

}  // namespace deepjit::cli
