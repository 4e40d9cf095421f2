/* The recurrence of a layer for one instruction set, for inference. ROWS says how many rows a product
   works on at a time (its sums, ROWS times PANEL vectors, have to stay in registers), and PAIRS is
   defined where products take pairs of bfloat16. */

#define WIDTH (PANEL * LANES)
#ifdef PAIRS
#define NUMBER uint16_t
#define INPUTS 2
#else
#define NUMBER float
#define INPUTS 1
#endif

/* Numbers as products take them. */
INLINE void NAME(put)(NUMBER *to, VECTOR x)
{
#ifdef PAIRS
    __m256bh low = _mm512_cvtneps_pbh((__m512)x);
    memcpy(to, &low, sizeof low);
#else
    NAME(store)(to, x);
#endif
}

/* A row, and zeros up to its padded size, which ends in the vector that the row ends in. */
static void NAME(put_row)(NUMBER *to, const float *from, int64_t n, int64_t n_padded)
{
    for (int64_t i = 0; i < n_padded; i += LANES)
        NAME(put)(to + i, NAME(get_floats)(from + i, n - i));
}

/* One input, or a pair of them, in all lanes. */
INLINE VECTOR NAME(spread_out)(const NUMBER *x)
{
#ifdef PAIRS
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return (VECTOR)_mm512_set1_epi32(pair);
#else
    return (VECTOR){0} + *x;
#endif
}

INLINE VECTOR NAME(add_product)(VECTOR sum, VECTOR factor, VECTOR w)
{
#ifdef PAIRS
    return (VECTOR)_mm512_dpbf16_ps((__m512)sum, (__m512bh)factor, (__m512bh)w);
#else
    return sum + factor * w;
#endif
}

/* The products of some rows and one panel, added to what each row starts from. The number of rows is
   a constant wherever this is compiled, so that all sums stay in registers. */
INLINE void NAME(multiply_rows)(
    const int rows, const NUMBER *x, int64_t stride, const NUMBER *weight, int64_t n_in, const float *start,
    int64_t start_stride, float *results)
{
    VECTOR sums[ROWS][PANEL];
    UNROLL
    for (int row = 0; row < rows; row++)
        UNROLL
        for (int j = 0; j < PANEL; j++)
            sums[row][j] = NAME(load)(start + row * start_stride + j * LANES);
    for (int64_t k = 0; k < n_in; k += INPUTS) {
        VECTOR factors[ROWS];
        UNROLL
        for (int row = 0; row < rows; row++)
            factors[row] = NAME(spread_out)(x + row * stride + k);
        UNROLL
        for (int j = 0; j < PANEL; j++) {
            VECTOR w = NAME(load)((const float *)weight + j * LANES);
            UNROLL
            for (int row = 0; row < rows; row++)
                sums[row][j] = NAME(add_product)(sums[row][j], factors[row], w);
        }
        weight += INPUTS * WIDTH;
    }
    UNROLL
    for (int row = 0; row < rows; row++)
        UNROLL
        for (int j = 0; j < PANEL; j++)
            NAME(store)(results + row * WIDTH + j * LANES, sums[row][j]);
}

#define MULTIPLY(rows) \
    static __attribute__((noinline)) void NAME(multiply_##rows)( \
        const NUMBER *x, int64_t stride, const NUMBER *weight, int64_t n_in, const float *start, \
        int64_t start_stride, float *results) \
    { NAME(multiply_rows)(rows, x, stride, weight, n_in, start, start_stride, results); }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
#if ROWS > 3
MULTIPLY(4)
#endif
#if ROWS > 4
MULTIPLY(5)
MULTIPLY(6)
#endif
#undef MULTIPLY

static void NAME(multiply)(
    int64_t rows, const NUMBER *x, int64_t stride, const NUMBER *weight, int64_t n_in, const float *start,
    int64_t start_stride, float *results)
{
#define CASE(rows) case rows: NAME(multiply_##rows)(x, stride, weight, n_in, start, start_stride, results); break;
    switch (rows) {
        CASE(1)
        CASE(2)
        CASE(3)
#if ROWS > 3
        CASE(4)
#endif
#if ROWS > 4
        CASE(5)
        CASE(6)
#endif
    }
#undef CASE
}

/* What the gates do: input, forget, candidate, output. sigmoid(x) = 1 / (1 + e^-x) and tanh(x) =
   (1 - e^-2x) / (1 + e^-2x), over one denominator. Gives what leaves the cells. */
INLINE VECTOR NAME(pass_gates)(const float *gates, float *cell, float cell_clip)
{
    VECTOR in = E_TO_MINUS(NAME(load)(gates)) + 1.0f;
    VECTOR forget = E_TO_MINUS(NAME(load)(gates + LANES)) + 1.0f;
    VECTOR candidate = E_TO_MINUS_TWICE(NAME(load)(gates + 2 * LANES));
    VECTOR out = E_TO_MINUS(NAME(load)(gates + 3 * LANES)) + 1.0f;
    VECTOR entering = in * (candidate + 1.0f);
    VECTOR value = NAME(load)(cell);
    value = (value * entering + (1.0f - candidate) * forget) / (entering * forget);
    value = NAME(clamp)(value, cell_clip);
    NAME(store)(cell, value);
    value = E_TO_MINUS_TWICE(value);
    return (1.0f - value) / ((value + 1.0f) * out);
}

/* Rows in tiles of like size, of at most ROWS: the end of the one that begins at a row. */
INLINE int64_t NAME(tile_end)(int64_t row, int64_t n_rows)
{
    int64_t n_left = n_rows - row;
    return row + n_left / ((n_left + ROWS - 1) / ROWS);
}

/* What a call works with. */
typedef struct {
    const Layer *layer;
    const Batch *batch;
    int64_t n_rows, n_input, n_cell, n_hidden, capacity;
    int64_t input_stride, hidden_stride, gated_stride;
    NUMBER *inputs; /* (capacity, input_stride) */
    NUMBER *hidden; /* (n_rows, hidden_stride) */
    NUMBER *gated;  /* (n_rows, gated_stride) */
    float *gates;   /* (n_cell_panels, capacity, PANEL, LANES) */
    float *cell;    /* (n_cell_panels, n_rows, LANES) */
    float *state;   /* (n_rows, output_size): the hidden state outside */
} NAME(Work);

static void NAME(lay_out)(NAME(Work) *work, Arena *arena)
{
    const int64_t n_panels = work->layer->n_cell_panels;
    work->inputs = take(arena, work->capacity * work->input_stride * sizeof(NUMBER));
    work->hidden = take(arena, work->n_rows * work->hidden_stride * sizeof(NUMBER));
    work->gated = take(arena, work->n_rows * work->gated_stride * sizeof(NUMBER));
    work->gates = take(arena, n_panels * work->capacity * WIDTH * sizeof(float));
    work->cell = take(arena, n_panels * work->n_rows * LANES * sizeof(float));
}

static void NAME(take_hidden)(NAME(Work) *work, int64_t n_rows)
{
    const int64_t size = work->layer->output_size;
    for (int64_t row = 0; row < n_rows; row++)
        NAME(put_row)(work->hidden + row * work->hidden_stride, work->state + row * size, size, work->n_hidden);
}

/* The cell values, which lie in panels inside of a call. */
static void NAME(move_cell)(NAME(Work) *work, int is_out)
{
    const int64_t size = work->layer->cell_size;
    float *outside = work->batch->cell + work->batch->first * size;
    for (int64_t panel = 0; panel < work->layer->n_cell_panels; panel++)
        for (int64_t row = 0; row < work->n_rows; row++) {
            float *inside = work->cell + (panel * work->n_rows + row) * LANES;
            float *beside = outside + row * size + panel * LANES;
            int64_t n = smaller(LANES, size - panel * LANES);
            if (is_out)
                memcpy(beside, inside, n * sizeof *beside);
            else {
                memset(inside, 0, LANES * sizeof *inside);
                memcpy(inside, beside, n * sizeof *inside);
            }
        }
}

/* The input half of the gates of the steps from one on whose positions find room together.
   Returns the step after them. */
static int64_t NAME(read_block)(NAME(Work) *work, int64_t step, int64_t position)
{
    const Layer *layer = work->layer;
    const int64_t size = layer->input_size;
    int64_t n_read = 0, begin = step;
    for (; step < work->batch->n_steps; step++) {
        int64_t n = n_running(work->batch, step);
        if (step > begin && n_read + n > work->capacity)
            break;
        const float *x = work->batch->x + (position + work->batch->first) * size;
        for (int64_t row = 0; row < n; row++)
            NAME(put_row)(work->inputs + (n_read + row) * work->input_stride, x + row * size, size, work->n_input);
        n_read += n;
        position += work->batch->batch_sizes[step];
    }
    for (int64_t panel = 0; panel < layer->n_cell_panels; panel++) {
        const NUMBER *weight = (const NUMBER *)layer->input_weight + panel * work->n_input * WIDTH;
        const float *bias = layer->bias + panel * WIDTH;
        float *gates = work->gates + panel * work->capacity * WIDTH;
        for (int64_t row = 0, end; row < n_read; row = end) {
            end = NAME(tile_end)(row, n_read);
            NAME(multiply)(
                end - row, work->inputs + row * work->input_stride, work->input_stride, weight, work->n_input,
                bias, 0, gates + row * WIDTH);
        }
    }
    return step;
}

/* A step of the first sequences, whose input half of the gates begins at a row of the block. */
static void NAME(run_step)(NAME(Work) *work, int64_t n, int64_t first_row)
{
    const Layer *layer = work->layer;
    const int64_t size = layer->output_size;
    const int is_projected = layer->n_output_panels > 0;
    float sums[ROWS * WIDTH] __attribute__((aligned(64)));
    for (int64_t panel = 0; panel < layer->n_cell_panels; panel++) {
        const NUMBER *weight = (const NUMBER *)layer->state_weight + panel * work->n_hidden * WIDTH;
        const float *gates = work->gates + (panel * work->capacity + first_row) * WIDTH;
        float *cell = work->cell + panel * work->n_rows * LANES;
        NUMBER *gated = work->gated + panel * LANES;
        float *output = work->state + panel * LANES;
        int64_t n_out = smaller(LANES, layer->cell_size - panel * LANES);
        for (int64_t row = 0, end; row < n; row = end) {
            end = NAME(tile_end)(row, n);
            NAME(multiply)(
                end - row, work->hidden + row * work->hidden_stride, work->hidden_stride, weight, work->n_hidden,
                gates + row * WIDTH, WIDTH, sums);
            for (int64_t i = row; i < end; i++) {
                VECTOR y = NAME(pass_gates)(sums + (i - row) * WIDTH, cell + i * LANES, layer->cell_clip);
                NAME(put)(gated + i * work->gated_stride, y);
                if (!is_projected)
                    memcpy(output + i * size, &y, n_out * sizeof *output);
            }
        }
    }
    if (!is_projected) {
        NUMBER *before = work->hidden;
        work->hidden = work->gated;
        work->gated = before;
        return;
    }
    const float zeros[WIDTH] = {0};
    for (int64_t panel = 0; panel < layer->n_output_panels; panel++) {
        const NUMBER *weight = (const NUMBER *)layer->projection_weight + panel * work->n_cell * WIDTH;
        float *output = work->state + panel * WIDTH;
        int64_t n_out = smaller(WIDTH, size - panel * WIDTH);
        for (int64_t row = 0, end; row < n; row = end) {
            end = NAME(tile_end)(row, n);
            NAME(multiply)(
                end - row, work->gated + row * work->gated_stride, work->gated_stride, weight, work->n_cell, zeros,
                0, sums);
            for (int64_t i = 0; i < (end - row) * WIDTH; i += LANES)
                NAME(store)(sums + i, NAME(clamp)(NAME(load)(sums + i), layer->proj_clip));
            for (int64_t i = row; i < end; i++)
                memcpy(output + i * size, sums + (i - row) * WIDTH, n_out * sizeof *output);
        }
    }
    NAME(take_hidden)(work, n);
}

static int NAME(run)(const Layer *layer, const Batch *batch)
{
    NAME(Work) work = {.layer = layer, .batch = batch, .n_rows = batch->last - batch->first};
    work.n_input = round_up(layer->input_size, INPUTS);
    work.n_cell = layer->n_cell_panels * LANES;
    work.n_hidden = layer->n_output_panels > 0 ? round_up(layer->output_size, INPUTS) : work.n_cell;
    work.capacity = larger(work.n_rows, POSITIONS);
    work.input_stride = spread(work.n_input, sizeof(NUMBER));
    work.hidden_stride = spread(work.n_hidden, sizeof(NUMBER));
    work.gated_stride = spread(work.n_cell, sizeof(NUMBER));
    work.state = batch->hidden + batch->first * layer->output_size;

    /* First how much memory is needed, then where in it the parts are. */
    Arena arena = {NULL, 0};
    NAME(lay_out)(&work, &arena);
    if (posix_memalign((void **)&arena.begin, 64, arena.used) != 0)
        return 1;
    arena.used = 0;
    NAME(lay_out)(&work, &arena);

    NAME(take_hidden)(&work, work.n_rows);
    NAME(move_cell)(&work, 0);
    int64_t position = 0;
    for (int64_t step = 0; step < batch->n_steps && n_running(batch, step) > 0;) {
        int64_t end = NAME(read_block)(&work, step, position), row = 0;
        for (; step < end; step++) {
            int64_t n = n_running(batch, step);
            NAME(run_step)(&work, n, row);
            write_outputs(layer, batch, n, position);
            row += n;
            position += batch->batch_sizes[step];
        }
    }
    NAME(move_cell)(&work, 1);
    free(arena.begin);
    return 0;
}
