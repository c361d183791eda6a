# oneDNN from the Python environment (packages onednn-cpu-gomp and onednn-devel-cpu-gomp), as deepjit::onednn.
set(DEEPJIT_VENV "" CACHE PATH "Python environment that holds oneDNN and the ONNX schema; default .venv")
if(NOT DEEPJIT_VENV)
  if(SKBUILD)
    # pip install: the build requirements of pyproject.toml, wherever pip put them.
    find_package(Python REQUIRED COMPONENTS Interpreter)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -c "import importlib.util; print(importlib.util.find_spec('onnx').origin)"
      OUTPUT_VARIABLE ONNX_ORIGIN OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    get_filename_component(DEEPJIT_VENV ${ONNX_ORIGIN}/../../../../.. ABSOLUTE)
  else()
    set(DEEPJIT_VENV ${CMAKE_SOURCE_DIR}/.venv)
  endif()
endif()
find_library(ONEDNN_LIBRARY NAMES libdnnl.so.3 dnnl PATHS ${DEEPJIT_VENV}/lib NO_DEFAULT_PATH REQUIRED)
find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp PATHS ${DEEPJIT_VENV}/include NO_DEFAULT_PATH REQUIRED)
add_library(deepjit::onednn SHARED IMPORTED)
set_target_properties(deepjit::onednn PROPERTIES
  IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE})
