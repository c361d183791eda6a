#include "stand_in.h"

#include <dlfcn.h>

#include <cstdlib>
#include <numeric>

#include "device_code.h"
#include "engine/format.h"
#include "graph/parse.h"
#include "kernels/nvrtc/launch_data.h"
#include "lower/lower.h"

namespace deepjit {

const StandIn* stand_in() {
  static const StandIn* found = []() -> const StandIn* {
    const char* driver = std::getenv("DEEPJIT_CUDA_DRIVER");
    void* library = driver == nullptr ? nullptr : dlopen(driver, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || dlsym(library, "fake_cuda_take_counts") == nullptr) return nullptr;
    static StandIn own;
    const auto find = [&](auto& member, const char* name) {
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    };
    find(own.take_counts, "fake_cuda_take_counts");
    find(own.allocated, "fake_cuda_allocated");
    find(own.allocate, "fake_cuda_allocate");
    find(own.free, "fake_cuda_free");
    find(own.stream, "fake_cuda_stream");
    find(own.write, "fake_cuda_write");
    find(own.finish, "fake_cuda_finish");
    return &own;
  }();
  return found;
}

namespace {

// The region of x becomes twice_plus.
std::vector<uint8_t> engine_of(Program program) {
  program.metadata["build.device"] = "cuda";
  program.outputs[1].name = "z";
  const auto dim = [](int axis) { return Quantity{1, {{0, static_cast<int16_t>(axis)}}}; };
  nvrtc_gpu::LaunchData data;
  data.name = "twice_plus";
  data.threads = 256;
  data.per_thread = 1;
  data.extents = {dim(0), dim(1)};  // behind x and y: 1 row, N columns, which twice_plus takes as k and n
  const std::span<const uint8_t> code = twice_plus_code();
  Tactic tactic;
  tactic.provider = "nvrtc";
  tactic.packed.push_back({-1, std::string(nvrtc_gpu::kCubinFormat) + "90",
                           Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(code.size())},
                                                 std::vector<uint8_t>(code.begin(), code.end()))});
  tactic.packed.push_back({-1, nvrtc_gpu::kLaunchFormat, nvrtc_gpu::write_launch_data(data)});
  for (Step& step : program.steps) {
    if (step.op == kRegionOp) step.tactic = tactic;
  }
  return write_engine({std::move(program), "", ""});
}

}  // namespace

std::vector<uint8_t> twice_engine(bool chooses) {
  const char* always = R"(graph @main(%x: int64[1,N]) -> (%y, %x) {
    %a = Add(%x, %x)
    %y = Neg(%a)
  })";
  const char* sometimes = R"(graph @main(%x: int64[1,N], %c: bool[]) -> (%y, %x) {
    %y = If(%c) then { %a = Add(%x, %x) %t = Neg(%a) -> (%t) } else { -> (%x) }
  })";
  return engine_of(lower(*parse_graph(chooses ? sometimes : always)));
}

std::vector<uint8_t> twice_and_sums_engine() {
  return engine_of(lower(*parse_graph(R"(graph @main(%x: int64[1,N]) -> (%s, %x, %t) {
    %i = constant int64[] [1]
    %a = Add(%x, %x)
    %y = Neg(%a)
    %s = CumSum(%y, %i)
    %t = CumSum(%x, %i)
  })")));
}

StandInWords::StandInWords(size_t count, int kind, int64_t first)
    : data_(static_cast<int64_t*>(stand_in()->allocate(count * 8, kind))) {
  std::iota(data_, data_ + count, first);
}

StandInWords::~StandInWords() { stand_in()->free(data_); }

bool StandInWords::twice(int64_t first, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (data_[i] != 2 * (first + static_cast<int64_t>(i)) + 1) return false;
  }
  return true;
}

bool StandInWords::same(int64_t first, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (data_[i] != first + static_cast<int64_t>(i)) return false;
  }
  return true;
}

}  // namespace deepjit
