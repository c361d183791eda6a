#!/usr/bin/env bash
# Builds bench/micro/NAME.cpp against build/dev's libraries: bench/micro/build.sh NAME [output]
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
env=${DEEPJIT_VENV:-$top/.venv}
name=$1
g++ -std=c++20 -O2 -fopenmp -I"$top/src" -I"$env/include" "$top/bench/micro/$name.cpp" \
  "$top/build/dev/libdeepjit_compiler.a" "$top/build/dev/libdeepjit_runtime.a" "$env/lib/libdnnl.so.3" \
  -lfmt -lcrypto -Wl,-rpath,"$env/lib" -o "${2:-$top/build/$name}"
