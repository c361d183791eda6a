// What a profiler implements to see each step run.
#pragma once

#include "program/program.h"

namespace deepjit {

struct Observer {
  virtual ~Observer() = default;
  // After each step: its wall time in microseconds.
  virtual void on_step(const Step& step, double us) = 0;
};

}  // namespace deepjit
