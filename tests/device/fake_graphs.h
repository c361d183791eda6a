// Operation graphs of the stand-in cuDNN: its descriptors, and what they compute in plain loops over host memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace fake_cudnn {

// Types of descriptors, attributes and of their values, as far as they are looked at.
enum {
  POINTWISE = 0,
  CONVOLUTION = 1,
  ENGINE = 2,
  CONFIG = 3,
  HEURISTICS = 4,
  PLAN = 5,
  KNOB = 7,
  CONV_FORWARD = 10,
  OP_POINTWISE = 13,
  GRAPH = 15,
  PACK = 16,
  TENSOR = 17,
  MATMUL = 18,
  OP_MATMUL = 19,
  OP_POOL = 25,
  OP_ATTENTION = 41
};
constexpr int kObject = 15;

using Bytes = std::vector<char>;
struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;
struct Attribute {
  int type = 0;
  int64_t count = 0;
  Bytes bytes;
  std::vector<Shared> objects;
};
struct Descriptor {
  int type = 0;
  bool finalized = false;
  std::map<int, Attribute> attributes;

  template <typename T>
  std::vector<T> list(int attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return {};
    std::vector<T> out(found->second.bytes.size() / sizeof(T));
    std::memcpy(out.data(), found->second.bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <typename T>
  T one(int attribute, T fallback = {}) const {
    const std::vector<T> all = list<T>(attribute);
    return all.empty() ? fallback : all[0];
  }
  const std::vector<Shared>& objects(int attribute) const {
    static const std::vector<Shared> none;
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? none : found->second.objects;
  }
  const Descriptor& object(int attribute) const { return *objects(attribute).at(0); }
  void put_int(int attribute, int type, int64_t value, size_t size = 8) {
    Attribute& own = attributes[attribute];
    own = {type, 1, Bytes(size), {}};
    std::memcpy(own.bytes.data(), &value, size);
  }
};

// Does the stand-in know every operation of the graph?
bool is_known(const Descriptor& graph);
// Computes the graph; `memory` has the tensors that are not virtual, by their names.
void run_graph(const Descriptor& graph, std::map<int64_t, char*> memory);

}  // namespace fake_cudnn
