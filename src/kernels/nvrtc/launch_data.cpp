#include "kernels/nvrtc/launch_data.h"

namespace deepjit::nvrtc_gpu {

namespace {

constexpr int64_t kMostThreads = 1024;

int64_t chunks_of_row(const LaunchData& data, int64_t columns) {
  return columns / data.per_thread + (columns % data.per_thread != 0 ? 1 : 0);
}

bool is_identifier(const std::string& name) {
  const bool plain =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
  return plain && !name.empty() && (name[0] < '0' || name[0] > '9');
}

void write(std::vector<int64_t>& words, const LaunchData& data) {
  words.insert(words.end(), {data.by_rows, data.threads, data.per_thread, data.rows_per_block, data.threads_per_row,
                             data.row_buffers, data.checks});
  write_text(words, data.name);
  write_quantities(words, data.extents);
  write_quantities(words, data.params);
}

LaunchData read(LaunchWords& words) {
  LaunchData data;
  data.by_rows = words.next(0, 1) != 0;
  data.threads = words.next(1, kMostThreads);
  data.per_thread = words.next(1, 64);
  data.rows_per_block = words.next(1, kMostThreads);
  data.threads_per_row = words.next(1, kMostThreads);
  data.row_buffers = words.next(0, 64);
  data.checks = words.next(0, 1) != 0;
  data.name = words.text();
  data.extents = words.quantities();
  data.params = words.quantities();
  if (data.by_rows && data.rows_per_block * data.threads_per_row != data.threads) {
    throw Error(Code::ENGINE_RANGE, "the rows of a generated kernel do not fill its blocks");
  }
  if (!is_identifier(data.name)) throw Error(Code::ENGINE_RANGE, "a generated kernel without a name");
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
  std::vector<int64_t> words;
  write_text(words, data.name);
  words.push_back(static_cast<int64_t>(data.parts.size()));
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
  data.name = words.text();
  if (!is_identifier(data.name)) throw Error(Code::ENGINE_RANGE, "a generated kernel without a name");
  const int64_t count = words.next(1, kMostComboKernels);
  for (int64_t i = 0; i < count; ++i) {
    ComboData::Part part;
    part.at = words.combo_place();
    part.launch = read(words);
    if (part.launch.row_buffers > 0 || part.launch.checks ||
        (i > 0 && part.launch.threads != data.parts[0].launch.threads)) {
      throw Error(Code::ENGINE_RANGE, "generated kernels that cannot share a launch");
    }
    data.parts.push_back(std::move(part));
  }
  return data;
}

int64_t shared_bytes(const LaunchData& data, int64_t columns) {
  const int64_t row = checked_mul(chunks_of_row(data, columns), data.per_thread * static_cast<int64_t>(sizeof(float)));
  return checked_mul(row, data.row_buffers * data.rows_per_block);
}

int64_t useful_blocks(const LaunchData& data, int64_t rows, int64_t columns) {
  if (data.by_rows) return rows / data.rows_per_block + (rows % data.rows_per_block != 0 ? 1 : 0);
  const int64_t chunks = checked_mul(rows, chunks_of_row(data, columns));
  return chunks / data.threads + (chunks % data.threads != 0 ? 1 : 0);
}

}  // namespace deepjit::nvrtc_gpu
