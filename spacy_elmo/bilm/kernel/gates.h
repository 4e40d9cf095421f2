/* What the gates of a layer do at a step of training, and its derivative, for one instruction set and
   one way to store what a step keeps: as floats, or as their upper halves (bfloat16). */

#define AS(name) JOINED(NAME(name), KIND)

/* n numbers; zeros for the rest. n is LANES wherever that is known when this is compiled. */
#ifdef IS_LOW
INLINE VECTOR AS(get)(const STORED *from, int64_t n)
{
    STORED part[LANES] = {0};
    if (n < LANES) {
        memcpy(part, from, n * sizeof *from);
        from = part;
    }
#if LANES == 16
    return (VECTOR)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
#elif LANES == 8
    return (VECTOR)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)), 16);
#else
    typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));
    Halves halves;
    memcpy(&halves, from, sizeof halves);
    return (VECTOR)(__builtin_convertvector(halves, INTEGERS) << 16);
#endif
}

INLINE void AS(put)(STORED *to, VECTOR x, int64_t n)
{
#ifdef PAIRS
    __m256bh part = _mm512_cvtneps_pbh((__m512)x);
#else
    typedef uint32_t Bits __attribute__((vector_size(LANES * 4)));
    /* To the nearest, and to the even one of two. */
    Bits bits = (Bits)x;
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
#if LANES == 16
    __m256i part = _mm512_cvtepi32_epi16((__m512i)bits);
#else
    typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));
    Halves part = __builtin_convertvector(bits, Halves);
#endif
#endif
    if (n == LANES)
        memcpy(to, &part, sizeof part);
    else
        memcpy(to, &part, n * sizeof *to);
}
#else
INLINE VECTOR AS(get)(const STORED *from, int64_t n) { return NAME(get_floats)(from, n); }
INLINE void AS(put)(STORED *to, VECTOR x, int64_t n) { NAME(put_floats)(to, x, n); }
#endif

/* n cells of a row, of which i is the first. */
INLINE void AS(pass_cells)(const Gates *step, int64_t row, int64_t i, int64_t n)
{
    const int64_t size = step->cell_size;
    const STORED *products = (const STORED *)step->products + row * 4 * size;
    STORED *gates = (STORED *)step->gates + row * 4 * size;
    STORED *kept = (STORED *)step->kept_cell + row * size;
    STORED *kept_tanh = (STORED *)step->tanh_cell + row * size;
    STORED *gated = (STORED *)step->gated + row * size;
    float *cell = step->cell + row * size;
    /* Two quotients by one division. */
    VECTOR in = 1.0f + E_TO_MINUS(AS(get)(products + i, n));
    VECTOR forget = 1.0f + E_TO_MINUS(AS(get)(products + size + i, n));
    VECTOR both = 1.0f / (in * forget), other = in;
    in = both * forget;
    forget = both * other;
    VECTOR candidate = E_TO_MINUS_TWICE(AS(get)(products + 2 * size + i, n));
    VECTOR out = 1.0f + E_TO_MINUS(AS(get)(products + 3 * size + i, n));
    both = 1.0f / ((1.0f + candidate) * out);
    other = (1.0f + candidate) * both;
    candidate = (1.0f - candidate) * out * both;
    out = other;
    AS(put)(gates + i, in, n);
    AS(put)(gates + size + i, forget, n);
    AS(put)(gates + 2 * size + i, candidate, n);
    AS(put)(gates + 3 * size + i, out, n);
    VECTOR value = NAME(get_floats)(cell + i, n) * forget + in * candidate;
    value = NAME(clamp)(value, step->cell_clip);
    NAME(put_floats)(cell + i, value, n);
    AS(put)(kept + i, value, n);
    value = E_TO_MINUS_TWICE(value);
    value = (1.0f - value) / (1.0f + value);
    AS(put)(kept_tanh + i, value, n);
    AS(put)(gated + i, out * value, n);
}

INLINE void AS(pass_cells_back)(const Gates *step, int64_t row, int64_t i, int64_t n)
{
    const int64_t size = step->cell_size;
    const VECTOR limit = (VECTOR){0} + step->cell_clip;
    const STORED *gates = (const STORED *)step->gates + row * 4 * size;
    const STORED *kept = (const STORED *)step->kept_cell + row * size;
    const STORED *before = (const STORED *)step->cell_before + row * size;
    const STORED *kept_tanh = (const STORED *)step->tanh_cell + row * size;
    const STORED *d_gated = (const STORED *)step->gated + row * size;
    STORED *d_gates = (STORED *)step->d_gates + row * 4 * size;
    float *d_cell = step->cell + row * size;
    VECTOR in = AS(get)(gates + i, n), forget = AS(get)(gates + size + i, n);
    VECTOR candidate = AS(get)(gates + 2 * size + i, n), out = AS(get)(gates + 3 * size + i, n);
    VECTOR value = AS(get)(kept + i, n), tanh = AS(get)(kept_tanh + i, n);
    VECTOR grad = AS(get)(d_gated + i, n);
    AS(put)(d_gates + 3 * size + i, grad * tanh * out * (1.0f - out), n);
    grad = grad * out * (1.0f - tanh * tanh);
    if (row < step->n_after)
        grad = grad + NAME(get_floats)(d_cell + i, n);
    /* A value at the clip has no gradient. */
    grad = NAME(choose)((value >= limit) | (value <= -limit), (VECTOR){0}, grad);
    NAME(put_floats)(d_cell + i, grad * forget, n);
    AS(put)(d_gates + i, grad * candidate * in * (1.0f - in), n);
    AS(put)(d_gates + size + i, grad * AS(get)(before + i, n) * forget * (1.0f - forget), n);
    AS(put)(d_gates + 2 * size + i, grad * in * (1.0f - candidate * candidate), n);
}

#define PASS_ROWS(name, pass) \
    static void AS(name)(const Gates *step, int64_t first, int64_t last) \
    { \
        const int64_t n_left = step->cell_size % LANES, n_whole = step->cell_size - n_left; \
        for (int64_t row = first; row < last; row++) { \
            for (int64_t i = 0; i < n_whole; i += LANES) \
                AS(pass)(step, row, i, LANES); \
            if (n_left > 0) \
                AS(pass)(step, row, n_whole, n_left); \
        } \
    }
PASS_ROWS(pass_rows, pass_cells)
PASS_ROWS(pass_rows_back, pass_cells_back)

#undef PASS_ROWS
#undef AS
