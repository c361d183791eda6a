#!/usr/bin/env bash
# Runs the fuzzers in parallel and says how many inputs they ran and what they found.
# usage: run.sh [--jobs P] [--seconds T] [--runs N] [--keep DIR] [import|engine]...
#   P processes for each fuzzer (default: one a core), one fuzzer after the other; each stops after T seconds or N
#   inputs of all processes together, whichever comes first (default 600 s). New inputs, logs and findings go to DIR
#   (default: out, beside this file). A fuzzer that stops at a finding starts again. Exit code 1 when there is any.
# The binaries fuzz_import and fuzz_engine lie in $FUZZ_BIN, their seeds in $FUZZ_SEEDS/{import,engine}, more inputs for
# both in $FUZZ_MORE; by default bin, seeds and regressions beside this file.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=${FUZZ_BIN:-$HERE/bin} SEEDS=${FUZZ_SEEDS:-$HERE/seeds} MORE=${FUZZ_MORE:-$HERE/regressions}
jobs=$(nproc) seconds='' runs='' keep=$HERE/out targets=()
while [ $# -gt 0 ]; do
  case $1 in
    import | engine) targets+=("$1") ;;
    --jobs) jobs=${2:?} && shift ;;
    --seconds) seconds=${2:?} && shift ;;
    --runs) runs=${2:?} && shift ;;
    --keep) keep=${2:?} && shift ;;
    *) sed -n 's/^# \{0,1\}//p' "$0" | head -n 9 >&2; exit 2 ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=(import engine)
[ -n "$seconds$runs" ] || seconds=600

# The quarantine holds all that one input frees, and short stacks of allocations do (replay a finding for long ones).
# libFuzzer's entropic schedule takes three times as long as the input itself, and names of new functions a symbolizer.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1:malloc_context_size=8:quarantine_size_mb=32
export UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=1
[ ! -d "$HERE/lib" ] || export LD_LIBRARY_PATH=$HERE/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# AddressSanitizer of clang 14 does not know how far newer kernels scatter a program's parts.
START=()
if setarch "$(uname -m)" -R true 2>/dev/null; then START=(setarch "$(uname -m)" -R); fi

# The number of inputs a log counts: what the end says, or the last line of progress.
executed() {
  awk 'FNR == 1 { total += n; n = 0; ended = 0 }
       /^stat::number_of_executed_units:/ { n = $2; ended = 1 }
       /^#[0-9]+/ && !ended { m = substr($1, 2) + 0; if (m > n) n = m }
       END { print total + n }' "$@"
}

# One process after the other until the time is over or the share of inputs is run.
worker() {
  local target=$1 k=$2 share=$3 folder=$keep/$1/$2 end=$((SECONDS + ${seconds:-100000000})) part=0 left log
  mkdir -p "$folder/corpus"
  while left=$((end - SECONDS)) && [ "$left" -gt 0 ] && [ "$part" -lt 100 ]; do
    local limits=(-max_total_time="$left")
    if [ -n "$share" ]; then
      [ "$share" -gt 0 ] || break
      limits+=(-runs="$share")
    fi
    log=$folder/log$part.txt
    if "${START[@]}" "$BIN/fuzz_$target" "${limits[@]}" -seed=$((k * 100 + part + 1)) -max_len=8192 -timeout=10 \
      -rss_limit_mb=4096 -entropic=0 -print_funcs=0 -artifact_prefix="$keep/findings/${target}_" -print_final_stats=1 -reload=0 \
      "$folder/corpus" "$SEEDS/$target" "$MORE" >"$log" 2>&1; then
      break
    fi
    [ -z "$share" ] || share=$((share - $(executed "$log")))
    part=$((part + 1))
  done
}

mkdir -p "$keep/findings"
for target in "${targets[@]}"; do
  echo "== $target: $jobs processes${seconds:+, $seconds s}${runs:+, $runs inputs}"
  rm -f "$keep/$target"/*/log*.txt
  start=$SECONDS pids=()
  for ((k = 0; k < jobs; ++k)); do
    worker "$target" "$k" "${runs:+$(((runs + jobs - 1) / jobs))}" &
    pids+=($!)
  done
  wait "${pids[@]}" || true
  logs=("$keep/$target"/*/log*.txt)
  total=$(executed "${logs[@]}") took=$((SECONDS - start))
  echo "$target: $total inputs in $took s, $((total / (took > 0 ? took : 1))) a second"
  grep -h "^SUMMARY:\|  what():\|libFuzzer: timeout\|libFuzzer: out-of-memory" "${logs[@]}" | sort | uniq -c || true
done
findings=$(find "$keep/findings" -type f ! -name '*slow-unit*' | wc -l)
echo "findings: $findings"
[ "$findings" = 0 ] || { find "$keep/findings" -type f ! -name '*slow-unit*' | head -n 20; exit 1; }
