# The ONNX schema of the pinned onnx package, compiled by protoc, as deepjit_onnx_proto.
file(GLOB ONNX_PROTO_SOURCE ${DEEPJIT_VENV}/lib/python3*/*-packages/onnx/onnx-ml.proto)
if(NOT ONNX_PROTO_SOURCE)
  message(FATAL_ERROR "onnx-ml.proto not found in ${DEEPJIT_VENV}; run ./dev setup")
endif()
set(ONNX_PROTO_DIR ${CMAKE_BINARY_DIR}/onnx_proto)
file(MAKE_DIRECTORY ${ONNX_PROTO_DIR})
get_filename_component(ONNX_PROTO_FOLDER ${ONNX_PROTO_SOURCE} DIRECTORY)
add_custom_command(
  OUTPUT ${ONNX_PROTO_DIR}/onnx-ml.pb.cc ${ONNX_PROTO_DIR}/onnx-ml.pb.h
  COMMAND protobuf::protoc --cpp_out=${ONNX_PROTO_DIR} -I${ONNX_PROTO_FOLDER} ${ONNX_PROTO_SOURCE}
  DEPENDS ${ONNX_PROTO_SOURCE})
add_library(deepjit_onnx_proto STATIC ${ONNX_PROTO_DIR}/onnx-ml.pb.cc)
# Before the system folders: Debian ships an older header of the same name.
target_include_directories(deepjit_onnx_proto BEFORE PUBLIC ${ONNX_PROTO_DIR})
target_link_libraries(deepjit_onnx_proto PUBLIC protobuf::libprotobuf)
# Generated code: no warnings, and no sanitizers, which double its compile time.
target_compile_options(deepjit_onnx_proto PRIVATE -w -fno-sanitize=all)
