#include "kernels/llvm/launch_data.h"

#include "kernels/launch_words.h"

namespace deepjit::llvm_cpu {

Tensor write_launch_data(const LaunchData& data) {
  std::vector<int64_t> words = {data.entry, data.row_buffers, data.reduces, data.cost};
  write_quantities(words, data.extents);
  write_quantities(words, data.params);
  write_quantities(words, {data.row});
  return Tensor::vector_i64(words);
}

LaunchData read_launch_data(const Tensor& tensor) {
  constexpr int64_t most = INT64_MAX;
  LaunchWords words(tensor);
  LaunchData data;
  data.entry = words.next(0, most);
  data.row_buffers = words.next(0, 64);
  data.reduces = words.next() != 0;
  data.cost = words.next(0, most);
  data.extents = words.quantities();
  data.params = words.quantities();
  const std::vector<Quantity> row = words.quantities();
  if (row.size() != 1) throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is damaged");
  data.row = row[0];
  if (data.extents.empty()) throw Error(Code::ENGINE_RANGE, "a generated kernel without axes");
  return data;
}

}  // namespace deepjit::llvm_cpu
