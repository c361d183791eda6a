#include "fake_code.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>

namespace fake_gpu {

namespace {

namespace fs = std::filesystem;

constexpr const char* kEmulation = DEEPJIT_TEST_FOLDER "/codegen/cuda_emulation.h";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

fs::path folder() {
  const char* given = std::getenv("DEEPJIT_FAKE_GPU_CACHE");
  fs::path folder =
      given != nullptr ? fs::path(given) : fs::temp_directory_path() / ("deepjit_fake_gpu." + std::to_string(getuid()));
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  return folder;
}

// Not for security: a file is taken only when it holds the same text.
std::string name_of(const std::string& text) {
  uint64_t hash = 1469598103934665603u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::stringstream out;
  out << std::hex << hash;
  return out.str();
}

// The text, and for each kernel what launches it and how many arguments it has.
std::string with_launchers(const std::string& text) {
  std::string out = std::string("#include \"") + kEmulation + "\"\n" + text +
                    "\nnamespace { template <typename... T> struct Sizes { int sizes[sizeof...(T) + 1]; };\n"
                    "template <typename... T> constexpr Sizes<T...> sizes(void (*)(T...)) "
                    "{ return {{(int)sizeof(T)..., 0}}; } }\n";
  static const std::regex kernel(R"(__global__\s+void\s+(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\()");
  std::set<std::string> seen;
  for (std::sregex_iterator it(text.begin(), text.end(), kernel), end; it != end; ++it) {
    const std::string name = (*it)[1];
    if (!seen.insert(name).second) continue;
    out += "extern \"C\" const auto parameters_" + name + " = sizes(" + name + ");\n";
    out += "extern \"C\" const char* launch_" + name +
           "(void** arguments, int blocks, int threads, long long shared, int backwards) {\n"
           "  return emulation::run(" +
           name + ", arguments, {blocks, threads, shared, backwards != 0});\n}\n";
  }
  return out;
}

std::mutex& mutex_of(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::mutex> all;
  const std::lock_guard<std::mutex> lock(mutex);
  return all[name];
}

}  // namespace

std::string library_of(const std::string& text, std::string& log) {
  static const std::string emulation = read_file(kEmulation);
  const std::string full = with_launchers(text);
  const std::string name = name_of(full + emulation);
  const std::lock_guard<std::mutex> lock(mutex_of(name));
  const fs::path source = folder() / (name + ".cpp");
  const fs::path library = folder() / (name + ".so");
  if (fs::exists(library) && read_file(source) == full) return library;
  const std::string own = name + "." + std::to_string(getpid());  // another process may make the same
  const fs::path new_source = folder() / (own + ".cpp"), new_library = folder() / (own + ".so"),
                 words = folder() / (own + ".log");
  std::ofstream(new_source) << full;
  const std::string command = std::string(DEEPJIT_HOST_COMPILER) +
                              " -std=c++20 -O1 -fPIC -shared -Wl,-Bsymbolic -ffp-contract=off -fno-strict-aliasing -w "
                              "-o " +
                              new_library.string() + " " + new_source.string() + " > " + words.string() + " 2>&1";
  const bool made = std::system(command.c_str()) == 0;
  log = made ? "" : "the host's compiler refuses CUDA text: " + read_file(words).substr(0, 4000);
  std::error_code ignored;
  fs::remove(words, ignored);
  if (!made) return "";
  fs::rename(new_library, library);
  fs::rename(new_source, source);
  return library;
}

}  // namespace fake_gpu
