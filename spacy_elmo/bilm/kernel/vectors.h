/* Vectors of one instruction set, and functions of them. */

typedef float NAME(Vector) __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t NAME(Integers) __attribute__((vector_size(LANES * 4), may_alias));
#define VECTOR NAME(Vector)
#define INTEGERS NAME(Integers)

INLINE VECTOR NAME(load)(const float *from)
{
    VECTOR x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void NAME(store)(float *to, VECTOR x) { memcpy(to, &x, sizeof x); }

INLINE VECTOR NAME(choose)(INTEGERS where, VECTOR a, VECTOR b)
{
    return (VECTOR)(((INTEGERS)a & where) | ((INTEGERS)b & ~where));
}

/* Not a number stays what it is: where one factor is none, these give the second one. */
#if LANES == 16
#define LOWER(a, b) ((VECTOR)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define UPPER(a, b) ((VECTOR)_mm512_max_ps((__m512)(a), (__m512)(b)))
#elif LANES == 8
#define LOWER(a, b) ((VECTOR)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define UPPER(a, b) ((VECTOR)_mm256_max_ps((__m256)(a), (__m256)(b)))
#else
#define LOWER(a, b) NAME(choose)((a) < (b), a, b)
#define UPPER(a, b) NAME(choose)((a) > (b), a, b)
#endif

INLINE VECTOR NAME(clamp)(VECTOR x, float limit)
{
    const VECTOR high = (VECTOR){0} + limit;
    return UPPER(-high, LOWER(high, x));
}

/* 2 to the power of factor * x, for powers from -40 to 40; beyond, that of the nearer end. By a whole
   part and a polynomial of degree 5 for the rest, whose relative error is below 8e-8. */
INLINE VECTOR NAME(power)(VECTOR x, float factor)
{
    const float magic = 12582912.0f; /* Numbers beside it are whole. */
    x = NAME(clamp)(x, 40.0f / (factor < 0 ? -factor : factor));
    VECTOR shifted = x * factor + magic;
    VECTOR rest = x * factor - (shifted - magic);
    VECTOR y = rest * 0.0013276461f + 0.009675553f;
    y = y * rest + 0.055507135f;
    y = y * rest + 0.2402212f;
    y = y * rest + 0.69314694f;
    y = y * rest + 1.0000001f;
    return (VECTOR)((INTEGERS)y + ((INTEGERS)shifted << 23));
}

/* Up to LANES floats; zeros for the rest. */
INLINE VECTOR NAME(get_floats)(const float *from, int64_t n)
{
    float part[LANES] = {0};
    if (n >= LANES)
        return NAME(load)(from);
    memcpy(part, from, n * sizeof *part);
    return NAME(load)(part);
}

INLINE void NAME(put_floats)(float *to, VECTOR x, int64_t n)
{
    if (n >= LANES)
        NAME(store)(to, x);
    else
        memcpy(to, &x, n * sizeof *to);
}

#define E_TO_MINUS(x) NAME(power)(x, -1.44269504f)
#define E_TO_MINUS_TWICE(x) NAME(power)(x, -2.88539008f)
