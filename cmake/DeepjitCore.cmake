# deepjit_core: what programs link, runtime, compiler and profiler together. Usually the static libraries; for a package the shared
# libdeepjit_core.so, so that the tool, the libraries, the Python module and the tests hold its code once.
option(DEEPJIT_SHARED_CORE "put the runtime and the compiler into one shared library" OFF)

if(NOT DEEPJIT_SHARED_CORE)
  add_library(deepjit_core INTERFACE)
  target_link_libraries(deepjit_core INTERFACE deepjit_compiler deepjit_profile)
  return()
endif()

add_library(deepjit_core SHARED
  $<TARGET_OBJECTS:deepjit_runtime> $<TARGET_OBJECTS:deepjit_compiler> $<TARGET_OBJECTS:deepjit_profile>
  $<TARGET_OBJECTS:deepjit_onnx_proto>)
target_include_directories(deepjit_core PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/src>
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>)
target_link_libraries(deepjit_core PUBLIC $<BUILD_INTERFACE:fmt::fmt>
  PRIVATE deepjit::llvm deepjit::onednn protobuf::libprotobuf OpenMP::OpenMP_CXX OpenSSL::Crypto ${RE2_LIBRARY} ${CMAKE_DL_LIBS})
# Its own names only: LLVM and protobuf of other versions may be in the same process.
set(DEEPJIT_CORE_MAP ${CMAKE_CURRENT_SOURCE_DIR}/cmake/libdeepjit_core.map)
target_link_options(deepjit_core PRIVATE -Wl,--version-script=${DEEPJIT_CORE_MAP})
set_target_properties(deepjit_core PROPERTIES
  LINKER_LANGUAGE CXX LINK_DEPENDS ${DEEPJIT_CORE_MAP} INSTALL_RPATH "$ORIGIN")
install(TARGETS deepjit_core EXPORT deepjit LIBRARY DESTINATION lib COMPONENT native)
