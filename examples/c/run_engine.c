/* Builds an engine from a model (or loads a saved one) and runs it once, through the C ABI.
 *
 * usage: run_engine MODEL.onnx|ENGINE.dje INPUT SHAPE IN.bin OUT.bin
 * e.g.   run_engine model.onnx x 2x3x8x8 x.bin y.bin
 * IN.bin holds the input's float32 values; OUT.bin receives the first output's bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deepjit/deepjit.h"

static int fail(void) {
  fprintf(stderr, "%s\n", deepjit_last_error());
  return 1;
}

/* "2x3x8x8" to numbers; returns how many. */
static int32_t parse_shape(char* text, int64_t shape[16]) {
  int32_t rank = 0;
  for (char* word = strtok(text, "x"); word != NULL && rank < 16; word = strtok(NULL, "x")) {
    shape[rank++] = strtoll(word, NULL, 10);
  }
  return rank;
}

static void* read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  const size_t bytes = (size_t)ftell(file);
  rewind(file);
  void* data = malloc(bytes + 1);
  if (data != NULL && fread(data, 1, bytes, file) != bytes) {
    free(data);
    data = NULL;
  }
  fclose(file);
  return data;
}

static void print_inputs(const deepjit_engine* engine) {
  for (size_t i = 0; i < deepjit_engine_input_count(engine); ++i) {
    deepjit_tensor_info info;
    if (deepjit_engine_input(engine, i, &info) != DEEPJIT_OK) return;
    printf("input %s:", info.name);
    for (int32_t k = 0; k < info.rank; ++k) printf(" %s", info.dim_names[k]);
    printf("\n");
  }
}

struct buffer {
  void* data;
  size_t bytes;
};

/* The first output goes to memory of ours, the others stay in the context. */
static void* place(size_t index, int32_t dtype, int32_t rank, const int64_t* shape, size_t bytes, void* user) {
  struct buffer* buffer = user;
  (void)dtype;
  (void)rank;
  (void)shape;
  if (index != 0) return NULL;
  buffer->bytes = bytes;
  buffer->data = aligned_alloc(64, (bytes + 64) / 64 * 64);
  return buffer->data;
}

static int run(const deepjit_engine* engine, char** argv) {
  int64_t shape[16];
  deepjit_tensor input = {argv[2], DEEPJIT_FLOAT32, parse_shape(argv[3], shape), shape, read_file(argv[4])};
  struct buffer buffer = {NULL, 0};
  deepjit_context* context = NULL;
  deepjit_tensor output;
  int failed = 1;
  if (deepjit_context_create(engine, 0, &context) != DEEPJIT_OK ||
      deepjit_context_run_into(context, &input, 1, place, &buffer) != DEEPJIT_OK ||
      deepjit_context_output(context, 0, &output) != DEEPJIT_OK) {
    fail();
  } else {
    printf("output %s:", output.name);
    for (int32_t k = 0; k < output.rank; ++k) printf(" %lld", (long long)output.shape[k]);
    printf("\n");
    FILE* file = fopen(argv[5], "wb");
    failed = file == NULL || fwrite(output.data, 1, buffer.bytes, file) != buffer.bytes;
    if (file != NULL) failed |= fclose(file) != 0;
  }
  deepjit_context_free(context);
  free(buffer.data);
  free((void*)input.data);
  return failed;
}

int main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: %s MODEL.onnx|ENGINE.dje INPUT SHAPE IN.bin OUT.bin\n", argv[0]);
    return 2;
  }
  const size_t length = strlen(argv[1]);
  const int saved = length > 4 && strcmp(argv[1] + length - 4, ".dje") == 0;
  deepjit_build_options options;
  deepjit_build_options_init(&options);
  deepjit_engine* engine = NULL;
  const deepjit_status status =
      saved ? deepjit_load_file(argv[1], 0, &engine) : deepjit_build_file(argv[1], &options, &engine);
  if (status != DEEPJIT_OK) return fail();
  print_inputs(engine);
  const int failed = run(engine, argv);
  deepjit_engine_free(engine);
  return failed;
}
