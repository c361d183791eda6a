# oneDNN from the Python environment (packages onednn-cpu-gomp and onednn-devel-cpu-gomp), as deepjit::onednn.
set(DEEPJIT_VENV ${CMAKE_SOURCE_DIR}/.venv CACHE PATH "Python environment that holds oneDNN and the ONNX schema")
find_library(ONEDNN_LIBRARY NAMES libdnnl.so.3 dnnl PATHS ${DEEPJIT_VENV}/lib NO_DEFAULT_PATH REQUIRED)
find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp PATHS ${DEEPJIT_VENV}/include NO_DEFAULT_PATH REQUIRED)
add_library(deepjit::onednn SHARED IMPORTED)
set_target_properties(deepjit::onednn PROPERTIES
  IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE})
