# libdeepjit.so, and what an installation holds: bin/deepjit, lib/, include/ and the CMake package "deepjit".
include(CMakePackageConfigHelpers)

add_library(deepjit SHARED $<TARGET_OBJECTS:deepjit_api>)
add_library(deepjit::deepjit ALIAS deepjit)
target_link_libraries(deepjit PRIVATE deepjit_core)
target_include_directories(deepjit INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
set(DEEPJIT_EXPORT_MAP ${CMAKE_CURRENT_SOURCE_DIR}/src/api/libdeepjit.map)
target_link_options(deepjit PRIVATE -Wl,--version-script=${DEEPJIT_EXPORT_MAP})
set_target_properties(deepjit PROPERTIES
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${DEEPJIT_EXPORT_MAP} INSTALL_RPATH "$ORIGIN")
set_target_properties(deepjit_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")

install(TARGETS deepjit EXPORT deepjit LIBRARY DESTINATION lib COMPONENT native)
install(TARGETS deepjit_cli RUNTIME DESTINATION bin COMPONENT native)
install(DIRECTORY include/deepjit DESTINATION include COMPONENT native)
# oneDNN comes along: it lives in a Python environment, where no linker looks.
get_filename_component(ONEDNN_FILE ${ONEDNN_LIBRARY} REALPATH)
install(FILES ${ONEDNN_FILE} DESTINATION lib RENAME libdnnl.so.3 COMPONENT native)
install(EXPORT deepjit NAMESPACE deepjit:: FILE deepjitConfig.cmake DESTINATION lib/cmake/deepjit COMPONENT native)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/deepjitConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/deepjitConfigVersion.cmake DESTINATION lib/cmake/deepjit COMPONENT native)
