#include "codegen/cuda/cuda_mapping.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace deepjit {

namespace {

constexpr int kMostChunks = 8;  // that a thread holds
constexpr int kMostThreads = 1024;
constexpr size_t kHeavy = 100;     // instructions an element
constexpr int64_t kMostHeld = 96;  // elements of operands that the registers of a thread hold

// One chunk a thread, then ever fewer threads with more chunks. A kernel of much work an element is spread over all
// threads that there are: its code is long, and its latency is what counts.
std::vector<CudaMapping> resident_mappings(const KernelIr& kernel, int width, int64_t columns) {
  const bool heavy = kernel.insts.size() > kHeavy;
  const int64_t operands =
      std::count_if(kernel.insts.begin(), kernel.insts.end(), [&](const Inst& i) { return is_plain_load(kernel, i); });
  std::vector<CudaMapping> out;
  for (int w = heavy ? 1 : width; w <= width; w *= 2) {
    int threads = 2;
    while (threads < kMostThreads && int64_t{threads} * w < columns) threads *= 2;
    for (int tries = heavy ? 1 : 4; tries > 0 && threads >= 2; --tries, threads /= 2) {
      const int64_t chunks = std::max<int64_t>(1, (columns + int64_t{w} * threads - 1) / (int64_t{w} * threads));
      const bool held = chunks == 1 || chunks * w * operands <= kMostHeld;
      if (chunks <= kMostChunks && held) out.push_back({w, threads, static_cast<int>(chunks)});
    }
  }
  return out;
}

// The most columns that a thread takes at once: 16 bytes of the smallest type that is walked along the row.
int widest(const KernelIr& kernel) {
  int bytes = kCudaVectorBytes;  // none walked densely: one column at a time
  for (const Access& a : kernel.accesses) {
    if (a.strides.back() == Quantity{1, {}}) bytes = std::min(bytes, static_cast<int>(dtype_size(a.dtype)));
  }
  return std::min(8, kCudaVectorBytes / bytes);
}

}  // namespace

std::string CudaMapping::to_string() const {
  if (across) return fmt::format("across{}", threads_per_row);
  if (threads_per_row == 0) return fmt::format("flat{}", per_thread);
  return fmt::format("row{}x{}", threads_per_row, per_thread) + (chunks > 0 ? fmt::format("x{}", chunks) : "");
}

CudaMapping CudaMapping::parse(const std::string& text) {
  for (int threads : {2, 4, 8, 16, 32}) {
    const CudaMapping mapping{1, threads, 0, true};
    if (mapping.to_string() == text) return mapping;
  }
  for (int threads : {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    for (int width : {1, 2, 4, 8}) {
      for (int chunks = 0; chunks <= kMostChunks; ++chunks) {
        const CudaMapping mapping{width, threads, chunks};
        if (mapping.to_string() == text) return mapping;
      }
    }
  }
  throw Error(Code::INTERNAL, "codegen: no mapping is called " + text);
}

bool shares_rows(const KernelIr& kernel) {
  const bool per_row = std::any_of(kernel.stores.begin(), kernel.stores.end(), [&](const Store& s) {
    return !kernel.accesses[static_cast<size_t>(s.access)].moves_along_row();
  });
  return kernel.reduces || per_row;
}

std::vector<CudaMapping> cuda_mappings(const KernelIr& kernel, int64_t columns) {
  int width = widest(kernel);
  // Rows that are not whole vectors are not aligned either, unless there is but one.
  while (kernel.rank() > 1 && width > 1 && columns % width != 0) width /= 2;
  if (!shares_rows(kernel)) {
    if (width == 1) return {{1, 0}};
    return {{width, 0}, {1, 0}};
  }
  if (kernel.lanes) {  // rows lie side by side: the fewer threads each, the more rows it takes to have work for all
    if (columns > 32) return {{1, 16, 0, true}, {1, 4, 0, true}, {1, 1}};
    return {{1, 4, 0, true}, {1, 1}};
  }
  std::vector<CudaMapping> out = resident_mappings(kernel, width, columns);
  if (!out.empty()) return out;
  return {{width, 512}, {width, 128}, {width, 32}};
}

}  // namespace deepjit
