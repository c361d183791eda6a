// Finds and loads libnvrtc. The few functions that are used are declared here: no header of the toolkit is needed.
#pragma once

#include <cstddef>
#include <string>

namespace deepjit::nvrtc {

struct Library {
  std::string path;
  int major = 0;
  int minor = 0;

  int (*version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*create_program)(void** program, const char* source, const char* name, int headers, const char* const* texts,
                        const char* const* names) = nullptr;
  int (*destroy_program)(void** program) = nullptr;
  int (*compile_program)(void* program, int options, const char* const* texts) = nullptr;
  int (*cubin_size)(void* program, size_t* size) = nullptr;
  int (*cubin)(void* program, char* bytes) = nullptr;
  int (*log_size)(void* program, size_t* size) = nullptr;
  int (*log)(void* program, char* text) = nullptr;
};

// Loaded once a process, and never unloaded; nullptr where there is none.
const Library* find_library();

}  // namespace deepjit::nvrtc
