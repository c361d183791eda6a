# deepjit::llvm: LLVM 19's x86-64 code generator, linked statically.
find_program(DEEPJIT_LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
function(deepjit_llvm_config out)
  execute_process(COMMAND ${DEEPJIT_LLVM_CONFIG} --link-static ${ARGN} OUTPUT_VARIABLE text
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(words UNIX_COMMAND "${text}")
  set(${out} ${words} PARENT_SCOPE)
endfunction()
deepjit_llvm_config(llvm_include --includedir)
deepjit_llvm_config(llvm_libdir --libdir)
deepjit_llvm_config(llvm_libs --libs x86codegen object scalaropts instcombine)
add_library(deepjit_llvm_libs INTERFACE)
target_include_directories(deepjit_llvm_libs SYSTEM INTERFACE ${llvm_include})
target_link_directories(deepjit_llvm_libs INTERFACE ${llvm_libdir})
# What LLVM itself was linked with and the code generator needs: compression of debug sections.
target_link_libraries(deepjit_llvm_libs INTERFACE ${llvm_libs} z zstd)
add_library(deepjit::llvm ALIAS deepjit_llvm_libs)
