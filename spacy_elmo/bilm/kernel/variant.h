/* All that one instruction set has. Before it is included, VARIANT names the set, LANES says how many
   floats a vector has, and ROWS and PAIRS are what recurrence.h says. */

#include "vectors.h"
#include "recurrence.h"

#define STORED float
#define KIND float32
#include "gates.h"
#undef STORED
#undef KIND
#define STORED uint16_t
#define KIND bfloat16
#define IS_LOW
#include "gates.h"
#undef STORED
#undef KIND
#undef IS_LOW

#undef VARIANT
#undef LANES
#undef ROWS
#undef PAIRS
#undef VECTOR
#undef INTEGERS
#undef WIDTH
#undef NUMBER
#undef INPUTS
#undef LOWER
#undef UPPER
#undef E_TO_MINUS
#undef E_TO_MINUS_TWICE
