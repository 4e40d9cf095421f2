/* LSTM layers on a CPU: the recurrence of one layer in one direction, for inference (recurrence.h),
   and what its gates do at a step of training (gates.h).

   In the recurrence, one thread runs a range of the sequences of a packed batch from the first step to
   the last. A sequence's result has the same bits whatever runs beside it: each of its numbers is
   summed in the same order for any number of rows.

   Both are written once, with vectors of the compiler (GCC and Clang), and are compiled here for
   several instruction sets. The machine's best one is taken at run time. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Vectors that a panel of a weight has side by side: the four gates of as many cells as a vector
   holds numbers, or that many outputs of a projection. */
#define PANEL 4

/* Positions whose input half of the gates is kept at a time, so that it stays in a core's cache. */
#define POSITIONS 128

/* As LayerArguments in library.py. Weights are in panels: (n_panels, n_in, PANEL, lanes), with pairs
   of inputs beside each other where products take pairs. */
typedef struct {
    int64_t input_size, output_size, cell_size;
    int64_t n_cell_panels, n_output_panels; /* No panel of outputs: there is no projection. */
    const void *input_weight, *state_weight, *projection_weight;
    const float *bias;           /* (n_cell_panels, PANEL, lanes) */
    float cell_clip, proj_clip;  /* Infinity for none. */
} Layer;

/* As BatchArguments in library.py: rows of packed tensors, see ../packing.py. */
typedef struct {
    const float *x;              /* (n_positions, input_size) */
    float *outputs;              /* (n_positions, output_size) */
    const int64_t *batch_sizes;  /* (n_steps,) */
    int64_t n_steps;
    int64_t first, last;         /* The range of sequences that this call runs. */
    float *hidden;               /* (n_sequences, output_size): the state before and after. */
    float *cell;                 /* (n_sequences, cell_size) */
    int64_t adds_input;          /* Is what the layer reads added to what it gives? */
} Batch;

/* As GatesArguments in library.py: a step of training. Rows are those of the running sequences. */
typedef struct {
    int64_t cell_size;
    float cell_clip;             /* Infinity for none. */
    int64_t n_after;             /* Back: rows that have a step after this one. */
    const void *products;        /* Forward: (n, 4 * cell_size) */
    void *gates;                 /* (n, 4 * cell_size) */
    void *kept_cell, *tanh_cell; /* (n, cell_size) */
    void *gated;                 /* (n, cell_size): forward what leaves the cells, back its gradient. */
    const void *cell_before;     /* Back: (n, cell_size) */
    void *d_gates;               /* Back: (n, 4 * cell_size) */
    float *cell;                 /* (n, cell_size): the cell value before and after the step; back, the
                                    gradient of the one after and then of the one before. */
} Gates;

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Numbers from a row to the next: an odd number of cache lines, so that rows do not fall on the
   same lines of the cache, and room for a whole vector at the end. */
static int64_t spread(int64_t n, int64_t size) { return round_up(n, 128 / size) + 64 / size; }

/* Of the range, the sequences that have a position at a step. */
static int64_t n_running(const Batch *batch, int64_t step)
{
    return larger(0, smaller(batch->batch_sizes[step], batch->last) - batch->first);
}

/* The state after a step is what the layer gives, or that and what it has read. */
static void write_outputs(const Layer *layer, const Batch *batch, int64_t n_rows, int64_t position)
{
    const int64_t size = layer->output_size;
    const float *state = batch->hidden + batch->first * size;
    const float *x = batch->x + (position + batch->first) * layer->input_size;
    float *to = batch->outputs + (position + batch->first) * size;
    memcpy(to, state, n_rows * size * sizeof *to);
    if (batch->adds_input)
        for (int64_t i = 0; i < n_rows * size; i++)
            to[i] += x[i];
}

/* Memory of a call, one piece after the other, each on a cache line. */
typedef struct {
    char *begin;
    size_t used;
} Arena;

static void *take(Arena *arena, size_t n_bytes)
{
    void *piece = arena->begin == NULL ? NULL : arena->begin + arena->used;
    arena->used += round_up(n_bytes, 64) + 64;
    return piece;
}

#define JOIN(a, b) a##_##b
#define JOINED(a, b) JOIN(a, b)
#define NAME(name) JOINED(name, VARIANT)
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Compiles what follows for a processor that has more than the least one. */
#define STRING(text) #text
#if defined(__clang__)
#define BEGIN_TARGET(flags) \
    _Pragma(STRING(clang attribute push(__attribute__((target(flags))), apply_to = function)))
#define END_TARGET _Pragma("clang attribute pop")
#else
#define BEGIN_TARGET(flags) _Pragma("GCC push_options") _Pragma(STRING(GCC target(flags)))
#define END_TARGET _Pragma("GCC pop_options")
#endif

#if defined(__x86_64__)

BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512bf16")
#define VARIANT avx512_bf16
#define LANES 16
#define ROWS 6
#define PAIRS
#include "variant.h"
END_TARGET

BEGIN_TARGET("avx512f,avx512bw,avx512vl")
#define VARIANT avx512
#define LANES 16
#define ROWS 6
#include "variant.h"
END_TARGET

BEGIN_TARGET("avx2,fma")
#define VARIANT avx2
#define LANES 8
#define ROWS 3
#include "variant.h"
END_TARGET

#endif

/* Any processor: the compiler's own choice for vectors of 16 bytes. */
#define VARIANT plain
#define LANES 4
#define ROWS 4
#include "variant.h"

typedef struct {
    const char *name;
    int64_t lanes, inputs_a_product; /* 2 where products take pairs of bfloat16. */
    int (*run)(const Layer *, const Batch *);
    void (*pass[2][2])(const Gates *, int64_t, int64_t); /* Forward and back, of float32 and bfloat16. */
} Variant;

#define PASSES(name) \
    {{pass_rows_##name##_float32, pass_rows_##name##_bfloat16}, \
     {pass_rows_back_##name##_float32, pass_rows_back_##name##_bfloat16}}

static const Variant VARIANTS[] = {
#if defined(__x86_64__)
    {"avx512_bf16", 16, 2, run_avx512_bf16, PASSES(avx512_bf16)},
    {"avx512", 16, 1, run_avx512, PASSES(avx512)},
    {"avx2", 8, 1, run_avx2, PASSES(avx2)},
#endif
    {"plain", 4, 1, run_plain, PASSES(plain)},
};

static int has(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx512_bf16") == 0)
        return avx512 && __builtin_cpu_supports("avx512bf16");
    if (strcmp(name, "avx512") == 0)
        return avx512;
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return strcmp(name, "plain") == 0;
}

/* To be changed with whatever the functions below take, here and in library.py. */
int64_t interface(void) { return 1; }

/* A variant by its number, from the best to the most general, or what says that there is none. */

int64_t n_variants(void) { return sizeof VARIANTS / sizeof *VARIANTS; }
const char *variant_name(int64_t number) { return VARIANTS[number].name; }
int64_t variant_lanes(int64_t number) { return VARIANTS[number].lanes; }
int64_t variant_inputs(int64_t number) { return VARIANTS[number].inputs_a_product; }
int variant_runs_here(int64_t number) { return has(VARIANTS[number].name); }

/* Runs a layer. 0, or 1 where memory lacks. */
int run_layer(int64_t number, const Layer *layer, const Batch *batch)
{
    return VARIANTS[number].run(layer, batch);
}

/* Rows of a step that a thread takes at a time. */
#define ROWS_A_TURN 4

typedef struct {
    void (*pass)(const Gates *, int64_t, int64_t);
    const Gates *step;
    int64_t n_rows, next;
} Shared;

static void take_turns(void *data)
{
    Shared *shared = data;
    for (;;) {
        int64_t first = __atomic_fetch_add(&shared->next, ROWS_A_TURN, __ATOMIC_RELAXED);
        if (first >= shared->n_rows)
            return;
        shared->pass(shared->step, first, smaller(first + ROWS_A_TURN, shared->n_rows));
    }
}

/* Does a step for some rows, forward or back, by torch's own threads where they can be found: threads of
   ours would compete with those, which go on waiting for some milliseconds after each operation. */
void pass_gates(int64_t number, const Gates *step, int64_t n_rows, int is_back, int is_low, int64_t n_threads)
{
    static void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    if (parallel == NULL && n_threads > 1)
        *(void **)&parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    Shared shared = {VARIANTS[number].pass[is_back][is_low], step, n_rows, 0};
    if (parallel == NULL || n_threads < 2 || n_rows <= ROWS_A_TURN)
        take_turns(&shared);
    else
        parallel(take_turns, &shared, (unsigned)n_threads, 0);
}
