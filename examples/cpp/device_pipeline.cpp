// Runs one engine behind another on a GPU: what is between them never leaves the device, and the second run is enqueued
// without a wait.
//
// usage: device_pipeline FIRST.onnx SECOND.onnx SHAPE [DEVICE]
// e.g.   device_pipeline resize.onnx classify.onnx 1x3x224x224 cuda
// The first model's first input is fed with counted float32 values; its first output is the second's first input.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <sstream>

#include "deepjit/deepjit.hpp"

namespace {

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) shape.push_back(std::stoll(word));
  return shape;
}

deepjit::Engine build(const char* model, const std::string& device) {
  deepjit::BuildOptions options;
  options.device = device;
  return deepjit::build(model, options);
}

// What one engine made, as the input of another; it lies where it lies.
deepjit::Input as_input(const deepjit::Engine& engine, const deepjit::Output& output) {
  return {engine.inputs().front().name, output.dtype, output.shape, output.data, output.memory};
}

size_t count_of(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (int64_t d : shape) count *= static_cast<size_t>(d);
  return count;
}

void run(const deepjit::Engine& first, const deepjit::Engine& second, const std::vector<int64_t>& shape) {
  std::vector<float> x(count_of(shape));
  std::iota(x.begin(), x.end(), 0.0F);
  const deepjit::Input input{first.inputs().front().name, deepjit::DataType::FLOAT32, shape, x.data()};
  deepjit::Context one = first.create_context();
  deepjit::Context two = second.create_context();
  for (int round = 0; round < 3; ++round) {
    // Plain host memory is copied up in a run that is waited for; what it makes stays there.
    deepjit::RunOptions stay;
    stay.outputs_on_device = true;
    const deepjit::Output& between = one.run({input}, stay).front();
    // The host is free while the GPU works. Any CUDA stream would do; this is the context's own.
    const deepjit::Output& last = two.run_async({as_input(second, between)}, two.stream()).front();
    std::vector<float> y(count_of(last.shape));
    last.owner.read(y.data(), y.size() * sizeof(float));  // waits for the run
    std::cout << last.name << " on " << last.owner.device() << ":";
    for (size_t i = 0; i < std::min<size_t>(y.size(), 4); ++i) std::cout << " " << y[i];
    std::cout << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: " << argv[0] << " FIRST.onnx SECOND.onnx SHAPE [DEVICE]\n";
    return 2;
  }
  try {
    const std::string device = argc == 5 ? argv[4] : "cuda";
    const deepjit::Engine first = build(argv[1], device);
    const deepjit::Engine second = build(argv[2], device);
    const deepjit::MemoryUse use = first.memory_use({{first.inputs().front().name, parse_shape(argv[3])}});
    std::cout << "the first engine takes " << use.total() << " bytes of " << first.device() << "\n";
    run(first, second, parse_shape(argv[3]));
  } catch (const deepjit::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
