#include "kernels/llvm/launch_data.h"

namespace deepjit::llvm_cpu {

namespace {

constexpr int64_t kMost = INT64_MAX;

void write(std::vector<int64_t>& words, const LaunchData& data) {
  words.insert(words.end(), {data.entry, data.row_buffers, data.reduces, data.cost});
  write_quantities(words, data.extents);
  write_quantities(words, data.params);
  write_quantities(words, {data.row});
  write_quantities(words, data.index_limits);
  words.insert(words.end(), data.index_inputs.begin(), data.index_inputs.end());
  words.insert(words.end(), data.index_ops.begin(), data.index_ops.end());
}

LaunchData read(LaunchWords& words) {
  LaunchData data;
  data.entry = words.next(0, kMost);
  data.row_buffers = words.next(0, 64);
  data.reduces = words.next() != 0;
  data.cost = words.next(0, kMost);
  data.extents = words.quantities();
  data.params = words.quantities();
  const std::vector<Quantity> row = words.quantities();
  if (row.size() != 1) throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is damaged");
  data.row = row[0];
  data.index_limits = words.quantities();
  for (size_t i = 0; i < data.index_limits.size(); ++i) data.index_inputs.push_back(words.next(0, INT16_MAX));
  for (size_t i = 0; i < data.index_limits.size(); ++i) data.index_ops.push_back(words.next(0, kMost));
  if (data.extents.empty()) throw Error(Code::ENGINE_RANGE, "a generated kernel without axes");
  return data;
}

}  // namespace

Tensor write_launch_data(const LaunchData& data) {
  std::vector<int64_t> words;
  write(words, data);
  return Tensor::vector_i64(words);
}

Tensor write_combo_data(const ComboData& data) {
  std::vector<int64_t> words = {data.entry, static_cast<int64_t>(data.parts.size())};
  for (const ComboData::Part& part : data.parts) {
    write_combo_place(words, part.at);
    write(words, part.launch);
  }
  return Tensor::vector_i64(words);
}

LaunchData read_launch_data(const Tensor& tensor) {
  LaunchWords words(tensor);
  return read(words);
}

ComboData read_combo_data(const Tensor& tensor) {
  LaunchWords words(tensor);
  ComboData data;
  data.entry = words.next(0, kMost);
  const int64_t count = words.next(1, kMostComboKernels);
  for (int64_t i = 0; i < count; ++i) {
    ComboData::Part part;
    part.at = words.combo_place();
    part.launch = read(words);
    data.parts.push_back(std::move(part));
  }
  return data;
}

}  // namespace deepjit::llvm_cpu
