// Builds an engine from a model, saves it, loads it again and runs it once, through the C++ API.
//
// usage: run_engine MODEL.onnx ENGINE.dje INPUT SHAPE IN.bin OUT.bin
// e.g.   run_engine model.onnx model.dje x 2x3x8x8 x.bin y.bin
// IN.bin holds the input's float32 values; OUT.bin receives the first output's bytes.
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "deepjit/deepjit.hpp"

namespace {

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) shape.push_back(std::stoll(word));
  return shape;
}

std::vector<char> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void build_and_save(const std::string& model, const std::string& engine_path) {
  deepjit::BuildOptions options;
  options.progress = [](const std::string& stage, size_t done, size_t total) {
    if (total == 0 || done == total) std::cerr << stage << "\n";
  };
  deepjit::build(model, options).save(engine_path);
}

void run(const std::string& engine_path, char** argv) {
  const deepjit::Engine engine = deepjit::load(engine_path);
  for (const deepjit::TensorInfo& info : engine.inputs()) {
    std::cout << "input " << info.name << ":";
    for (const deepjit::Dimension& d : info.shape) std::cout << " " << d.text;
    std::cout << "\n";
  }
  const std::vector<char> data = read_file(argv[5]);
  deepjit::Context context = engine.create_context();
  const auto& outputs = context.run({{argv[3], deepjit::DataType::FLOAT32, parse_shape(argv[4]), data.data()}});
  const deepjit::Output& first = outputs.front();
  size_t bytes = deepjit::data_type_size(first.dtype);
  std::cout << "output " << first.name << ":";
  for (int64_t d : first.shape) {
    std::cout << " " << d;
    bytes *= static_cast<size_t>(d);
  }
  std::cout << "\n";
  std::ofstream(argv[6], std::ios::binary)
      .write(static_cast<const char*>(first.data), static_cast<std::streamsize>(bytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "usage: " << argv[0] << " MODEL.onnx ENGINE.dje INPUT SHAPE IN.bin OUT.bin\n";
    return 2;
  }
  try {
    build_and_save(argv[1], argv[2]);
    run(argv[2], argv);
  } catch (const deepjit::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
