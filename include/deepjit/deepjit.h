/* deepjit's C ABI: the flat face of deepjit.hpp, for plugins and other languages.
 *
 * Every function that can fail returns a status: 0, or the stable number of the error (docs/errors.md). The text of the
 * calling thread's last failure is in deepjit_last_error() and its relatives. No exception and no C++ type crosses.
 * Handles are opaque; free each with its own function; freeing NULL does nothing. An engine may be shared by threads
 * and freed while contexts of it live. A context belongs to one thread at a time: a second one gets 801.
 * Strings are UTF-8 and end in NUL. Tensors are dense, row-major, in host memory unless it is said that they lie on the
 * engine's GPU. Pointers that a getter returns live as long as the handle, unless it says otherwise. */
#ifndef DEEPJIT_DEEPJIT_H_
#define DEEPJIT_DEEPJIT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t deepjit_status;
#define DEEPJIT_OK 0

/* Element types, numbered as ONNX's TensorProto.DataType. Types of fewer than eight bits take one byte an element;
 * elements of STRING are char pointers. A value may also be a SEQUENCE of n tensors, of shape {n}, or an OPTIONAL
 * tensor or sequence, of shape {0} when it is empty and {1} otherwise: their elements are deepjit_tensor structs, whose
 * names may be NULL. */
typedef enum deepjit_dtype {
  DEEPJIT_UNDEFINED = 0,
  DEEPJIT_FLOAT32 = 1,
  DEEPJIT_UINT8 = 2,
  DEEPJIT_INT8 = 3,
  DEEPJIT_UINT16 = 4,
  DEEPJIT_INT16 = 5,
  DEEPJIT_INT32 = 6,
  DEEPJIT_INT64 = 7,
  DEEPJIT_STRING = 8,
  DEEPJIT_BOOL = 9,
  DEEPJIT_FLOAT16 = 10,
  DEEPJIT_FLOAT64 = 11,
  DEEPJIT_UINT32 = 12,
  DEEPJIT_UINT64 = 13,
  DEEPJIT_BFLOAT16 = 16,
  DEEPJIT_FLOAT8E4M3FN = 17,
  DEEPJIT_FLOAT8E4M3FNUZ = 18,
  DEEPJIT_FLOAT8E5M2 = 19,
  DEEPJIT_FLOAT8E5M2FNUZ = 20,
  DEEPJIT_UINT4 = 21,
  DEEPJIT_INT4 = 22,
  DEEPJIT_FLOAT4E2M1 = 23,
  DEEPJIT_FLOAT8E8M0 = 24,
  DEEPJIT_UINT2 = 25,
  DEEPJIT_INT2 = 26,
  DEEPJIT_SEQUENCE = 100,
  DEEPJIT_OPTIONAL = 101
} deepjit_dtype;

typedef struct deepjit_engine deepjit_engine;
typedef struct deepjit_context deepjit_context;

/* ---- errors */

/* "error[E203 SHAPE_MISMATCH]: message", with a hint line if there is one; "" before any failure. The three texts are
 * valid until the next failure in the same thread. */
const char* deepjit_last_error(void);
const char* deepjit_last_error_message(void);
const char* deepjit_last_error_hint(void);
/* "SHAPE_MISMATCH" for 203, "OK" for 0. */
const char* deepjit_status_name(deepjit_status status);
/* "0.1.0" */
const char* deepjit_version(void);

/* ---- building */

/* Bounds of one input's shape: the engine takes shapes in [min, max] and is tuned at opt. Each has `rank` numbers. An
 * input that comes again starts another range: the k-th of all inputs belong together, and one that comes once belongs
 * to all. A run takes the range that its shapes lie in. */
typedef struct deepjit_range {
  const char* input;
  int32_t rank;
  const int64_t* min;
  const int64_t* opt;
  const int64_t* max;
} deepjit_range;

/* Set up by deepjit_build_options_init; NULL pointers and zeros mean the default. Later versions append fields. */
typedef struct deepjit_build_options {
  size_t size;           /* sizeof(deepjit_build_options) of the caller */
  const char* device;    /* "cpu", "cuda", "cuda:N" */
  const char* precision; /* "fp32"; on a GPU also "tf32", "fp16", "bf16" */
  int32_t threads;       /* 0: all cores */
  int32_t level;         /* 0 to 3; init sets 3 */
  int32_t tune;          /* 0: the reference implementation everywhere; init sets 1 */
  int32_t reserved;      /* 0 */
  const deepjit_range* ranges;
  size_t range_count;
  const char* const* disable; /* names of passes to leave out */
  size_t disable_count;
  const char* tune_cache;   /* folder for measured choices */
  const char* lock;         /* lockfile: read when it exists, else written */
  const char* force_tactic; /* "provider" or "provider:variant" */
  double budget_s;          /* seconds for tuning; 0: no limit */
  const char* model_folder; /* where external data may lie */
  /* Called from the building thread with `user`. A progress that returns nonzero ends the build with 803. */
  int (*progress)(const char* stage, size_t done, size_t total, void* user);
  void (*log)(const char* line, void* user);
  void* user;
  const char* targets; /* GPUs to compile for, "sm_80,sm_90"; NULL: the one that is here */
  double tolerance;    /* largest relative error of a kernel; 0: 1e-5, for 16-bit floats 1e-3 */
  int32_t device_only; /* of a GPU: 1: a step that would run on the CPU is an error */
  int32_t reserved2;   /* 0 */
} deepjit_build_options;

void deepjit_build_options_init(deepjit_build_options* options);

/* `options` may be NULL. On failure *engine is NULL. */
deepjit_status deepjit_build_file(const char* model_path, const deepjit_build_options* options,
                                  deepjit_engine** engine);
deepjit_status deepjit_build_bytes(const void* model, size_t bytes, const deepjit_build_options* options,
                                   deepjit_engine** engine);

/* ---- engines */

/* `threads` 0 keeps the build's number. */
deepjit_status deepjit_load_file(const char* engine_path, int32_t threads, deepjit_engine** engine);
deepjit_status deepjit_load_bytes(const void* data, size_t bytes, int32_t threads, deepjit_engine** engine);
/* `device` picks one of the kind that the engine was built for, such as "cuda:1"; NULL takes the first. */
deepjit_status deepjit_load_file_on(const char* engine_path, int32_t threads, const char* device,
                                    deepjit_engine** engine);
/* The path holds the old file or the whole new one. */
deepjit_status deepjit_engine_save(const deepjit_engine* engine, const char* path);
/* The same model with every kernel chosen anew by measuring on this machine. Of `options`, which may be NULL, count:
 * device (NULL: the engine's own), targets, threads, ranges, tune_cache, lock, force_tactic, budget_s, tolerance,
 * progress, log and user. 704 where the engine's kind of device is not here, 404 for one of another kind. */
deepjit_status deepjit_engine_tune(const deepjit_engine* engine, const deepjit_build_options* options,
                                   deepjit_engine** tuned);
void deepjit_engine_free(deepjit_engine* engine);

typedef struct deepjit_tensor_info {
  const char* name;
  int32_t dtype;                             /* deepjit_dtype */
  int32_t rank;                              /* -1: not known before a run */
  const int64_t* dims;                       /* -1 where a dimension is not constant */
  const char* const* dim_names;              /* "3", "N", "(H-1)//2+1" */
  int32_t optional;                          /* 1: an input that may be left out */
  const struct deepjit_tensor_info* element; /* what a SEQUENCE or OPTIONAL holds, else NULL */
} deepjit_tensor_info;

size_t deepjit_engine_input_count(const deepjit_engine* engine);
size_t deepjit_engine_output_count(const deepjit_engine* engine);
deepjit_status deepjit_engine_input(const deepjit_engine* engine, size_t index, deepjit_tensor_info* info);
deepjit_status deepjit_engine_output(const deepjit_engine* engine, size_t index, deepjit_tensor_info* info);
/* Text for people: inputs, outputs, steps, graphs. */
const char* deepjit_engine_inspect(const deepjit_engine* engine);

/* "cpu", or the device that contexts run on: "cuda:0". */
const char* deepjit_engine_device(const deepjit_engine* engine);

/* ---- running */

typedef struct deepjit_tensor {
  const char* name;
  int32_t dtype; /* deepjit_dtype */
  int32_t rank;
  const int64_t* shape;
  const void* data;
} deepjit_tensor;

/* Gives memory for output `index`, at least 16-byte aligned; NULL leaves it to the context. Not called
 * for STRING, SEQUENCE and OPTIONAL. */
typedef void* (*deepjit_allocate)(size_t index, int32_t dtype, int32_t rank, const int64_t* shape, size_t bytes,
                                  void* user);

/* `threads` 0 takes the engine's number. */
deepjit_status deepjit_context_create(const deepjit_engine* engine, int32_t threads, deepjit_context** context);
/* Runs once; inputs by name in any order. The context can be used again after a failure. */
deepjit_status deepjit_context_run(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count);
/* The same with outputs in memory that `allocate` gives. */
deepjit_status deepjit_context_run_into(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count,
                                        deepjit_allocate allocate, void* user);
/* Output `index` of the last run; its pointers are valid until the next one. 803 when no run has succeeded since. */
deepjit_status deepjit_context_output(const deepjit_context* context, size_t index, deepjit_tensor* output);
size_t deepjit_context_memory_bytes(const deepjit_context* context);

/* ---- running with tensors on the device (docs/device_tensors.md) */

typedef enum deepjit_memory {
  DEEPJIT_HOST = 0,
  DEEPJIT_DEVICE = 1 /* of the engine's GPU */
} deepjit_memory;

/* Set up by deepjit_run_options_init; zeros and NULL pointers mean the default. Later versions append fields. Streams
 * are a CUstream or cudaStream_t each; NULL is CUDA's legacy default stream. */
typedef struct deepjit_run_options {
  size_t size;                   /* sizeof(deepjit_run_options) of the caller */
  const int32_t* input_memory;   /* deepjit_memory of each input; NULL: all lie on the host */
  const deepjit_tensor* outputs; /* where outputs go, by name, of their type and shape; the data is written */
  size_t output_count;
  const int32_t* output_memory; /* of each of these; NULL: all lie on the host */
  int32_t outputs_on_device;    /* 1: the other outputs stay on the device */
  int32_t use_stream;           /* 1: run on `stream`; 0: on the context's own */
  void* stream;
  /* 1: return when all is enqueued on `stream`. Inputs and outputs lie on the device or in page-locked host memory and
   * stay until the stream has come past the run; the other outputs stay on the device. */
  int32_t no_wait;
  int32_t reserved;   /* 0 */
  void* const* after; /* streams whose work so far comes before the run */
  size_t after_count;
} deepjit_run_options;

void deepjit_run_options_init(deepjit_run_options* options);
/* As deepjit_context_run; 804 for memory that is not where it is said to be. `options` may be NULL. */
deepjit_status deepjit_context_run_with(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count,
                                        const deepjit_run_options* options);
/* Where output `index` of the last run lies: deepjit_memory. */
deepjit_status deepjit_context_output_memory(const deepjit_context* context, size_t index, int32_t* memory);
/* Waits for runs with no_wait, and until the launches of the runs so far are ready to be replayed. */
deepjit_status deepjit_context_synchronize(deepjit_context* context);
/* The stream of runs without one; NULL on the CPU. */
void* deepjit_context_stream(const deepjit_context* context);

/* Bytes that an engine and one context take, on the device where the engine runs on one. */
typedef struct deepjit_memory_use {
  uint64_t constants; /* shared by all contexts */
  uint64_t values;    /* between steps */
  uint64_t scratch;   /* of kernels */
  uint64_t inputs;    /* copies there; none for inputs that lie there already */
  uint64_t outputs;
  uint64_t total;
} deepjit_memory_use;

/* At these shapes: only name, rank and shape of the tensors are read. Inputs that are not among them count at the
 * largest shape of their range. 804 when that leaves a dimension open. */
deepjit_status deepjit_engine_memory_use(const deepjit_engine* engine, const deepjit_tensor* shapes, size_t count,
                                         deepjit_memory_use* use);
void deepjit_context_free(deepjit_context* context);

#ifdef __cplusplus
}
#endif

#endif /* DEEPJIT_DEEPJIT_H_ */
