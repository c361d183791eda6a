// The C ABI's tensors as the C++ API's inputs and outputs, and back. Needs the public headers only.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "deepjit/deepjit.h"
#include "deepjit/deepjit.hpp"

namespace deepjit::c_api {

constexpr int kArgument = 804;

// Throws ARGUMENT when the pointer is NULL.
void require(const void* pointer, const char* what);
std::string text_or(const char* text, const char* otherwise);

// The C view of a list of TensorInfo, which must outlive it.
class InfoTable {
 public:
  explicit InfoTable(const std::vector<TensorInfo>& list);
  size_t size() const { return infos_.size(); }
  void get(size_t i, deepjit_tensor_info* out) const;

 private:
  struct Arrays {
    std::vector<int64_t> dims;
    std::vector<const char*> names;
    std::unique_ptr<InfoTable> element;
  };
  std::vector<Arrays> arrays_;
  std::vector<deepjit_tensor_info> infos_;
};

// Inputs for one run; they look into the caller's memory.
class CInputs {
 public:
  // `memory` says where each lies; nullptr: all on the host.
  CInputs(const deepjit_tensor* tensors, size_t count, const int32_t* memory);
  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  void take(const deepjit_tensor& tensor, Input& input, int depth);

  std::vector<Input> inputs_;
  std::deque<std::vector<Input>> elements_;
  std::deque<std::vector<std::string>> strings_;
};

// One output as C sees it, good until the context's next run.
class COutput {
 public:
  void take(const Output& output);
  const deepjit_tensor& tensor() const { return tensor_; }

 private:
  deepjit_tensor tensor_{};
  std::vector<const char*> strings_;
  std::vector<COutput> inner_;
  std::vector<deepjit_tensor> elements_;
};

}  // namespace deepjit::c_api
