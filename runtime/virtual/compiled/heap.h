/* A heap of structs with `count` of them in `heap`, and room for `room`: what both clocks and loops take from. */

/* Defines PUSH and POP of OWNER's heap of ENTRY, by IS_BEFORE(one, other) of their addresses. */
#define HEAP(OWNER, ENTRY, IS_BEFORE, PUSH, POP)                                                               \
    static int PUSH(OWNER *self, ENTRY entry) {                                                                \
        if (self->count == self->room) {                                                                       \
            ENTRY *wider = PyMem_Realloc(self->heap, (size_t)(2 * self->room + 64) * sizeof *wider);           \
            if (!wider) {                                                                                      \
                PyErr_NoMemory();                                                                              \
                return -1;                                                                                     \
            }                                                                                                  \
            self->heap = wider;                                                                                \
            self->room = 2 * self->room + 64;                                                                  \
        }                                                                                                      \
        Py_ssize_t at = self->count++;                                                                         \
        for (; at && IS_BEFORE(&entry, &self->heap[(at - 1) / 2]); at = (at - 1) / 2)                          \
            self->heap[at] = self->heap[(at - 1) / 2];                                                         \
        self->heap[at] = entry;                                                                                \
        return 0;                                                                                              \
    }                                                                                                          \
                                                                                                               \
    static ENTRY POP(OWNER *self) {                                                                            \
        ENTRY first = self->heap[0], last = self->heap[--self->count];                                         \
        Py_ssize_t at = 0;                                                                                     \
        for (Py_ssize_t child; (child = 2 * at + 1) < self->count; at = child) {                               \
            if (child + 1 < self->count && IS_BEFORE(&self->heap[child + 1], &self->heap[child]))              \
                child++;                                                                                       \
            if (!IS_BEFORE(&self->heap[child], &last))                                                         \
                break;                                                                                         \
            self->heap[at] = self->heap[child];                                                                \
        }                                                                                                      \
        if (self->count)                                                                                       \
            self->heap[at] = last;                                                                             \
        return first;                                                                                          \
    }
