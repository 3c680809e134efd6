/* The VPU interpreter's C interface.
 *
 *   vpu_program* program;
 *   if (vpu_load(blob, size, NULL, 2, &program) != VPU_OK) puts(vpu_last_error());
 *   const void* inputs[] = {image};
 *   void* outputs[] = {scores};
 *   vpu_execute(program, inputs, outputs, 2, NULL);
 *   vpu_destroy(program);
 *
 * A blob is what VpuBackend.preprocess makes of a delegated subgraph. Every function that can fail
 * returns a vpu_code, and leaves what is wrong in words in vpu_last_error(). Different programs may
 * be used from different threads at once. One program runs one inference at a time: another call
 * that executes it meanwhile fails with VPU_BUSY and does nothing.
 */
#ifndef VPU_H
#define VPU_H

#include <stddef.h>
#include <stdint.h>

#define VPU_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  VPU_OK = 0,
  VPU_INCOMPATIBLE = 1, /* not a VPU blob, or one of another version */
  VPU_CORRUPT = 2,      /* a VPU blob that is damaged or inconsistent */
  VPU_UNAVAILABLE = 3,  /* an instruction set or memory that this machine has not */
  VPU_BAD_ARGUMENT = 4, /* a null pointer, an index out of range */
  VPU_BUSY = 5          /* another thread is executing the program */
} vpu_code;

typedef enum { VPU_INT8 = 0, VPU_INT32 = 1, VPU_FLOAT32 = 2 } vpu_dtype;

typedef struct vpu_program vpu_program;

/* An input or output. Pointers live as long as the program. */
typedef struct {
  const char* name;         /* the graph node it came from */
  const int32_t* sizes;     /* logical; `rank` of them */
  const uint8_t* dim_order; /* dimension i in memory is logical dimension dim_order[i] */
  size_t rank;
  size_t bytes;
  vpu_dtype dtype;
  int32_t zero_point; /* of int8: real = scale * (value - zero_point) */
  float scale;
} vpu_argument;

/* An instruction. Pointers live as long as the program. */
typedef struct {
  const char* op;       /* as in the schema: "Conv2d" */
  const char* name;     /* the source ops: "conv2d+relu" */
  const int32_t* shape; /* of its output, as it lies in memory; `rank` of them */
  size_t rank;
  size_t bytes;       /* of its output */
  vpu_dtype dtype;    /* of its output */
  int32_t zero_point; /* of its output */
  int32_t debug_id;
  int64_t macs; /* multiply-accumulates; 0 where the notion does not apply */
} vpu_instruction;

/* What to record of an execution: arrays with one element per instruction. Either may be null. */
typedef struct {
  int64_t* nanoseconds; /* gets the time each instruction took */
  void* const* outputs; /* where to copy each instruction's output; an element may be null */
} vpu_trace;

typedef struct {
  const char* name;
  const char* reason; /* why it is not available, "" where it is; lives until the thread's next call
                         of vpu_isa_at */
  int32_t available;
} vpu_isa;

VPU_API const char* vpu_version(void);

/* Why the calling thread's last failing call failed. */
VPU_API const char* vpu_last_error(void);

/* The instruction sets this library knows, from the plainest to the best. */
VPU_API size_t vpu_isa_count(void);
VPU_API vpu_code vpu_isa_at(size_t index, vpu_isa* isa);

/* How fast a set's multiply instruction is on this machine: repeats it on registers alone, on the
 * calling thread, and tells how many multiply-accumulates that was, in how long. `macs` 0: the set
 * does not say. `isa` as for vpu_load. */
VPU_API vpu_code vpu_isa_peak(const char* isa, int64_t iterations, int64_t* macs,
                              int64_t* nanoseconds);

/* The program does not need `blob` after this. One not aligned to 16 bytes is copied meanwhile.
 * `isa` null or "": the environment variable VPU_ISA, else the best this CPU has.
 * `max_threads`: as many threads as an execution may ever use. */
VPU_API vpu_code vpu_load(const void* blob, size_t size, const char* isa, int32_t max_threads,
                          vpu_program** program);

/* What a program may cost, for blobs that are not trusted: a small one can ask for very much. A
 * program beyond a limit is refused with VPU_UNAVAILABLE. 0: the environment variable, else the
 * default, as with vpu_load. */
typedef struct {
  uint64_t memory; /* VPU_MEMORY_LIMIT: bytes that loading may take: arena, scratch, tables, and
                      constants as often as instructions read and pack them; by default 2^30, and 8
                      for each byte of the blob */
  uint64_t work;   /* VPU_WORK_LIMIT: operations of one execution: multiply-accumulates, cells
                      of pooling windows, and values written; by default there is no limit */
} vpu_limits;

VPU_API vpu_code vpu_load_within(const void* blob, size_t size, const char* isa,
                                 int32_t max_threads, const vpu_limits* limits,
                                 vpu_program** program);
VPU_API void vpu_destroy(vpu_program* program);

VPU_API const char* vpu_isa_of(const vpu_program* program);
VPU_API size_t vpu_arena_bytes(const vpu_program* program);
VPU_API size_t vpu_input_count(const vpu_program* program);
VPU_API size_t vpu_output_count(const vpu_program* program);
VPU_API size_t vpu_instruction_count(const vpu_program* program);
VPU_API vpu_code vpu_input_at(const vpu_program* program, size_t index, vpu_argument* argument);
VPU_API vpu_code vpu_output_at(const vpu_program* program, size_t index, vpu_argument* argument);
VPU_API vpu_code vpu_instruction_at(const vpu_program* program, size_t index,
                                    vpu_instruction* instruction);

/* One pointer per argument, each to as many bytes as the argument says, aligned to its dtype, in
 * the argument's dim order. No output may overlap another argument. `threads` beyond max_threads
 * are not used; 1 starts none. The first execution with more starts threads, which later ones use
 * again. `trace` may be null. */
VPU_API vpu_code vpu_execute(vpu_program* program, const void* const* inputs, void* const* outputs,
                             int32_t threads, const vpu_trace* trace);

/* Executes so many times in a row; `nanoseconds` gets the times of the first run's instructions,
 * then of the second's, and so on. */
VPU_API vpu_code vpu_time(vpu_program* program, const void* const* inputs, void* const* outputs,
                          int32_t threads, size_t runs, int64_t* nanoseconds);

#ifdef __cplusplus
}
#endif

#endif
