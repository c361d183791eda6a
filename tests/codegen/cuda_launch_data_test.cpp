// What is stored beside a generated CUDA kernel: there and back, and damage is noticed.
#include <gtest/gtest.h>

#include "kernels/nvrtc/launch_data.h"

namespace deepjit::nvrtc_gpu {
namespace {

LaunchData sample() {
  LaunchData data;
  data.name = "row_kernel";
  data.by_rows = true;
  data.threads = 128;
  data.per_thread = 4;
  data.rows_per_block = 4;
  data.threads_per_row = 32;
  data.row_buffers = 2;
  data.extents = {{3, {{0, 1}}}, {1, {{0, 2}, {1, 0}}}};
  data.params = {{2, {{1, 0}}}};
  return data;
}

TEST(CudaLaunchData, ThereAndBack) {
  const LaunchData want = sample();
  const LaunchData got = read_launch_data(write_launch_data(want));
  EXPECT_EQ(got.name, want.name);
  EXPECT_EQ(got.by_rows, want.by_rows);
  EXPECT_EQ(got.threads, want.threads);
  EXPECT_EQ(got.per_thread, want.per_thread);
  EXPECT_EQ(got.rows_per_block, want.rows_per_block);
  EXPECT_EQ(got.threads_per_row, want.threads_per_row);
  EXPECT_EQ(got.row_buffers, want.row_buffers);
  EXPECT_EQ(got.extents, want.extents);
  EXPECT_EQ(got.params, want.params);
}

TEST(CudaLaunchData, DamageIsNoticed) {
  const std::vector<int64_t> words = write_launch_data(sample()).to_i64();
  for (size_t n = 0; n < words.size(); ++n) {
    const std::vector<int64_t> less(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_THROW(read_launch_data(Tensor::vector_i64(less)), Error) << n;
  }
  for (size_t at : {0, 1, 2, 3, 4, 5, 6, 7}) {  // up to the first character of the name
    for (int64_t word : {int64_t{-1}, INT64_MAX}) {
      std::vector<int64_t> other = words;
      other[at] = word;
      EXPECT_THROW(read_launch_data(Tensor::vector_i64(other)), Error) << at << " is " << word;
    }
  }
}

TEST(CudaLaunchData, TheKernelsNameIsAnIdentifier) {
  for (const char* name : {"", "a b", "1a", "a;", "exit()"}) {
    LaunchData data = sample();
    data.name = name;
    EXPECT_THROW(read_launch_data(write_launch_data(data)), Error) << name;
  }
}

TEST(CudaLaunchData, BlocksAndSharedMemory) {
  LaunchData data = sample();
  EXPECT_EQ(useful_blocks(data, 9, 1000), 3);  // four rows a block
  EXPECT_EQ(useful_blocks(data, 0, 1000), 0);
  EXPECT_EQ(shared_bytes(data, 5), 8 * 4 * 2 * 4);  // rows are whole chunks; two are kept for each of four rows
  data.by_rows = false;
  data.row_buffers = 0;
  EXPECT_EQ(useful_blocks(data, 3, 513), 4);  // 129 chunks a row
  EXPECT_EQ(useful_blocks(data, 3, 0), 0);
  EXPECT_EQ(shared_bytes(data, 5), 0);
}

}  // namespace
}  // namespace deepjit::nvrtc_gpu
