/* The next end first: a heap in which every activity and every quota knows its place. */

typedef struct {
    End **heap;
    Py_ssize_t count;
} Ends;

static inline int ends_before(const End *one, const End *other) {
    return one->end_s < other->end_s || (one->end_s == other->end_s && one->number < other->number);
}

static inline void place_end(Ends *ends, Py_ssize_t at, End *one) {
    ends->heap[at] = one;
    one->at = at;
}

static void rise(Ends *ends, Py_ssize_t at) {
    End *one = ends->heap[at];
    while (at && ends_before(one, ends->heap[(at - 1) / 2])) {
        place_end(ends, at, ends->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place_end(ends, at, one);
}

static void sink(Ends *ends, Py_ssize_t at) {
    End *one = ends->heap[at];
    for (Py_ssize_t child; (child = 2 * at + 1) < ends->count; at = child) {
        if (child + 1 < ends->count && ends_before(ends->heap[child + 1], ends->heap[child]))
            child++;
        if (!ends_before(ends->heap[child], one))
            break;
        place_end(ends, at, ends->heap[child]);
    }
    place_end(ends, at, one);
}

static void move_end(Ends *ends, Py_ssize_t at) {
    End *one = ends->heap[at];
    rise(ends, at);
    sink(ends, one->at);
}

/* It ends at another time from now on; infinity: not at all. */
static void set_end(Ends *ends, End *one, double end_s) {
    Py_ssize_t at = one->at;
    one->end_s = end_s;
    if (end_s < INFINITY) {
        if (at < 0)
            place_end(ends, at = ends->count++, one);
        move_end(ends, at);
    } else if (at >= 0) {
        End *last = ends->heap[--ends->count];
        one->at = -1;
        if (last != one) {
            place_end(ends, at, last);
            move_end(ends, at);
        }
    }
}
