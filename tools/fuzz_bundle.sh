#!/usr/bin/env bash
# fuzz_bundle.sh BUILD OUT: the fuzzers of a build folder (./dev build fuzz), what they need to run elsewhere, and their
# seeds and corpus, merged to what reaches new code, as OUT/ and OUT.tar.xz. Runs on any x86-64 Linux with a glibc of
# this system's version or newer: OUT/run.sh --jobs P --seconds T.
set -euo pipefail
[ $# = 2 ] || { sed -n 's/^# //p' "$0" | head -n 3 >&2; exit 2; }
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$1 out=$2
rm -rf "$out"
mkdir -p "$out"/{bin,lib,seeds/import,seeds/engine}
cp "$ROOT/tests/fuzz/run.sh" "$out/"
cp -r "$ROOT/tests/fuzz/regressions" "$out/"

# Every library but glibc's own, which must be the machine's.
for target in import engine; do
  objcopy --strip-debug "$build/tests/fuzz_$target" "$out/bin/fuzz_$target"
  ldd "$build/tests/fuzz_$target" | awk '$3 ~ /^\// { print $3 }' |
    grep -v '/\(libc\|libm\|libpthread\|libdl\|librt\|libresolv\)\.so' | xargs -r cp -uLt "$out/lib"
done

export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0:malloc_context_size=0 OMP_NUM_THREADS=1
for target in import engine; do
  inputs=("$build/seeds/$target" "$ROOT/tests/fuzz/regressions")
  for folder in "$build/corpus/$target" "$build/out/$target"/*/corpus; do
    if [ -d "$folder" ]; then inputs+=("$folder"); fi
  done
  "$build/tests/fuzz_$target" -merge=1 -max_len=8192 "$out/seeds/$target" "${inputs[@]}" >"$out/merge_$target.log" 2>&1 ||
    { tail -n 5 "$out/merge_$target.log" >&2; exit 1; }
  rm "$out/merge_$target.log"
  echo "$target: $(find "$out/seeds/$target" -type f | wc -l) inputs" >&2
done
XZ_OPT=-2 tar -C "$(dirname "$out")" -cJf "$out.tar.xz" "$(basename "$out")"
du -sh "$out" "$out.tar.xz" >&2
