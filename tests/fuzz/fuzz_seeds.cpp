// fuzz_seeds NODE_TESTS OUT: writes the seeds of both fuzzers to OUT/import and OUT/engine.
#include <filesystem>
#include <fstream>

#include "harness.h"

namespace {

void write_all(const std::filesystem::path& folder, const std::vector<deepjit::fuzz::Input>& inputs) {
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::ofstream out(folder / ("seed" + std::to_string(i)), std::ios::binary);
    out.write(reinterpret_cast<const char*>(inputs[i].data()), static_cast<std::streamsize>(inputs[i].size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto models = deepjit::fuzz::import_seeds(argv[1], 4096);
  write_all(std::filesystem::path(argv[2]) / "import", models);
  write_all(std::filesystem::path(argv[2]) / "engine", deepjit::fuzz::engine_seeds(models));
  return 0;
}
