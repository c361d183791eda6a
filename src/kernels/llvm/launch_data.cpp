#include "kernels/llvm/launch_data.h"

namespace deepjit::llvm_cpu {

namespace {

void write(std::vector<int64_t>& words, const std::vector<Quantity>& list) {
  words.push_back(static_cast<int64_t>(list.size()));
  for (const Quantity& q : list) {
    words.push_back(q.factor);
    words.push_back(static_cast<int64_t>(q.dims.size()));
    for (const Quantity::Factor& f : q.dims) words.push_back(f.operand * 256 + f.axis);
  }
}

class Words {
 public:
  explicit Words(const Tensor& tensor) {
    if (tensor.dtype() == DType::INT64) words_ = tensor.to_i64();
  }
  int64_t next() {
    if (at_ == words_.size()) throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is too short");
    return words_[at_++];
  }
  std::vector<Quantity> list() {
    std::vector<Quantity> out;
    const int64_t n = count();
    for (int64_t i = 0; i < n; ++i) {
      Quantity q;
      q.factor = next();
      const int64_t dims = count();
      for (int64_t k = 0; k < dims; ++k) {
        const int64_t packed = next();
        if (packed < 0 || packed >= 256 * 256) throw Error(Code::ENGINE_RANGE, "a kernel size names no dim");
        q.dims.push_back({static_cast<int16_t>(packed / 256), static_cast<int16_t>(packed % 256)});
      }
      out.push_back(std::move(q));
    }
    return out;
  }

 private:
  int64_t count() {
    const int64_t n = next();
    if (n < 0 || n > 4096) throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is damaged");
    return n;
  }
  std::vector<int64_t> words_;
  size_t at_ = 0;
};

}  // namespace

Tensor write_launch_data(const LaunchData& data) {
  std::vector<int64_t> words = {data.entry, data.row_buffers, data.reduces, data.cost};
  write(words, data.extents);
  write(words, data.params);
  return Tensor::vector_i64(words);
}

LaunchData read_launch_data(const Tensor& tensor) {
  Words words(tensor);
  LaunchData data;
  data.entry = words.next();
  data.row_buffers = words.next();
  data.reduces = words.next() != 0;
  data.cost = words.next();
  if (data.entry < 0 || data.row_buffers < 0 || data.row_buffers > 64 || data.cost < 0) {
    throw Error(Code::ENGINE_RANGE, "the launch data of a generated kernel is damaged");
  }
  data.extents = words.list();
  data.params = words.list();
  if (data.extents.empty()) throw Error(Code::ENGINE_RANGE, "a generated kernel without axes");
  return data;
}

}  // namespace deepjit::llvm_cpu
