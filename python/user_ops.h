// Ops of the user for Python; deepjit/_ops.py has what people call.
#pragma once

#include <nanobind/nanobind.h>

namespace deepjit::python {

void bind_user_ops(nanobind::module_& m);

}  // namespace deepjit::python
