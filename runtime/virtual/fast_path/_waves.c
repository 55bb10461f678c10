/* The order of events of regular asynchronous jobs: the compiled twin of runtime/virtual/fast_path/loop.py.

A Wave follows gradients from one event to the next, and returns where Python has something to do: new factors of
jitter, a timer or a change of delays, a full chunk. Every operation on seconds is the twin's, in the twin's order. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { FULL, SOON, SPENT, EMPTY }; /* why advance() returns */

/* Arrays that Python sees as bytearrays: element type, name, length. Gradients by place, in the order in which servers
   took them; Computes by order; workers by number; servers by state. */
#define ARRAYS(X)                            \
    X(int64_t, grads, rows + workers)        \
    X(int64_t, senders, rows + workers)      \
    X(double, taken_s, rows + workers)       \
    X(double, handled_s, rows)               \
    X(double, idle_at_s, rows)               \
    X(int64_t, after, rows + workers)        \
    X(double, own_s, rows + workers)         \
    X(double, injected_s, rows + workers)    \
    X(double, block_s, workers * block)      \
    X(int64_t, drawn, workers)               \
    X(int64_t, share, workers)               \
    X(double, delay_s, workers)              \
    X(double, slowdown_frac, workers)        \
    X(double, server_free_s, servers)        \
    X(double, server_busy_s, servers)        \
    X(double, server_injected_s, servers)

typedef struct {
    double at_s;
    int64_t grad, worker;
} Sent; /* a gradient on its way to the servers; at the same time, the one ordered first comes first */

typedef struct {
    PyObject_HEAD
#define FIELD(type, name, length) PyObject *name##_bytes; type *name;
    ARRAYS(FIELD)
#undef FIELD
    Sent *sent; /* a binary heap */
    int64_t *ready, *clock;
    double decision_s, control_s, transfer_s, data_s, overshoot_s;
    double soon_s, next_s, free_s, reached_s, idle_s;
    long long rows, workers, block, servers;
    long long stop, place, taken, orders, total, next_grad, going, states, shares_memory;
    long long bound, low, high, behind;
    long long num_sent, num_ready, issued;
} Wave;

/* ---- gradients on their way --------------------------------------------------------------------------------------- */

static int earlier(const Sent *one, const Sent *other)
{
    return one->at_s < other->at_s || (one->at_s == other->at_s && one->grad < other->grad);
}

static void push(Wave *w, Sent one)
{
    Sent *heap = w->sent;
    int64_t at = w->num_sent++;
    while (at > 0 && earlier(&one, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = one;
}

static Sent pop(Wave *w)
{
    Sent *heap = w->sent, first = heap[0], last = heap[--w->num_sent];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < w->num_sent) {
        if (child + 1 < w->num_sent && earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!earlier(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* ---- one event after another -------------------------------------------------------------------------------------- */

static void compute(Wave *w, int64_t worker)
{
    double own_s = w->block_s[worker * w->block + w->drawn[worker]++];
    double asked_s = w->delay_s[worker] + w->slowdown_frac[worker] * own_s;
    double injected_s = asked_s > 0 ? asked_s + w->overshoot_s : 0.0;
    double loaded_s = w->reached_s + w->data_s, pulled_s = w->idle_s + w->transfer_s;
    if (loaded_s > pulled_s)
        pulled_s = loaded_s;
    w->after[w->orders] = w->place;
    w->own_s[w->orders] = own_s;
    w->injected_s[w->orders++] = injected_s;
    push(w, (Sent){pulled_s + (own_s + injected_s) + w->transfer_s, w->next_grad++, worker});
    w->share[worker]--;
}

/* Order the Computes that are due; nonzero: worker `going` needs more factors first. */
static int issue(Wave *w)
{
    while (w->issued < w->num_ready && w->next_grad < w->total) {
        int64_t worker = w->ready[w->issued];
        if (w->share[worker] > 0) {
            if (w->drawn[worker] == w->block) {
                w->going = worker;
                return 1;
            }
            compute(w, worker);
        }
        w->issued++;
    }
    return 0;
}

static double handling_s(const Wave *w)
{
    double arrived_s = w->taken_s[w->place] + w->control_s;
    return arrived_s < w->free_s ? w->free_s : arrived_s;
}

/* The servers take what reaches them before the coordinator handles its next gradient. */
static void take(Wave *w)
{
    while (w->num_sent && w->sent[0].at_s <= w->next_s) {
        Sent one = pop(w);
        w->grads[w->taken] = one.grad;
        w->senders[w->taken] = one.worker;
        w->taken_s[w->taken++] = one.at_s >= w->idle_s || w->shares_memory ? one.at_s : w->idle_s;
        if (w->taken == w->place + 1)
            w->next_s = handling_s(w);
    }
}

static double update(Wave *w)
{
    double last_s = -INFINITY;
    for (int64_t state = 0; state < w->states; state++) {
        double begun_s = w->server_free_s[state];
        if (begun_s < w->reached_s)
            begun_s = w->reached_s;
        w->server_free_s[state] = begun_s + w->server_busy_s[state] + w->server_injected_s[state];
        if (w->server_free_s[state] > last_s)
            last_s = w->server_free_s[state];
    }
    return last_s;
}

/* The slowest clock advances, since `worker` was the last one there: those that waited for that may continue. */
static void step(Wave *w, int64_t worker)
{
    w->low++;
    w->high++;
    w->behind = 0;
    for (int64_t one = 0; one < w->workers; one++) {
        w->behind += w->clock[one] == w->low;
        if (one == worker ? w->clock[one] <= w->high : w->clock[one] == w->high)
            w->ready[w->num_ready++] = one;
    }
}

/* Who may compute after a gradient of this worker; a negative bound is none. */
static void tick(Wave *w, int64_t worker)
{
    int64_t clock = ++w->clock[worker];
    w->num_ready = w->issued = 0;
    if (w->bound >= 0 && clock == w->low + 1 && !--w->behind)
        step(w, worker);
    else if (w->bound < 0 || clock <= w->high)
        w->ready[w->num_ready++] = worker;
}

static void handle(Wave *w)
{
    w->handled_s[w->place] = w->next_s;
    w->free_s = w->next_s + w->decision_s;
    w->reached_s = w->free_s + w->control_s;
    w->idle_at_s[w->place] = w->idle_s = update(w);
    tick(w, w->senders[w->place++]);
    w->next_s = w->place < w->taken ? handling_s(w) : INFINITY;
}

static int advance_by(Wave *w, int looked)
{
    for (;;) {
        if (issue(w))
            return SPENT;
        take(w);
        if (w->place == w->taken)
            return EMPTY;
        if (!looked && w->next_s >= w->soon_s)
            return SOON;
        looked = 0;
        handle(w);
        if (w->place == w->stop)
            return FULL;
    }
}

/* ---- what Python sees --------------------------------------------------------------------------------------------- */

static PyObject *wave_advance(Wave *w, PyObject *looked)
{
    int past = PyObject_IsTrue(looked);
    if (past < 0)
        return NULL;
    if (w->place >= w->stop || w->stop > w->rows || w->states < 1 || w->states > w->servers) {
        PyErr_SetString(PyExc_ValueError, "a wave without room: stop and states must fit its arrays");
        return NULL;
    }
    return PyLong_FromLong(advance_by(w, past));
}

/* Forget the gradients before `place`, which are in rows; those that nobody has handled come first now. */
static PyObject *wave_forget(Wave *w, PyObject *ignored)
{
    size_t left = (size_t)(w->taken - w->place);
    memmove(w->grads, w->grads + w->place, left * sizeof *w->grads);
    memmove(w->senders, w->senders + w->place, left * sizeof *w->senders);
    memmove(w->taken_s, w->taken_s + w->place, left * sizeof *w->taken_s);
    w->taken = (long long)left;
    w->place = w->orders = 0;
    Py_RETURN_NONE;
}

/* As at the start of a job: every worker may compute, and nothing is on its way. */
static void wave_start(Wave *w)
{
    w->next_s = w->soon_s = INFINITY;
    w->high = w->bound;
    w->behind = w->num_ready = w->workers;
    for (int64_t worker = 0; worker < w->workers; worker++) {
        w->ready[worker] = worker;
        w->drawn[worker] = w->block; /* nothing is drawn yet */
    }
}

static void *zeros(PyObject **bytes, long long length, size_t size)
{
    *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)((size_t)length * size));
    return *bytes == NULL ? NULL : memset(PyByteArray_AS_STRING(*bytes), 0, (size_t)length * size);
}

static int allocate(Wave *w)
{
    long long rows = w->rows, workers = w->workers, block = w->block, servers = w->servers;
#define ALLOCATE(type, name, length)                                     \
    if ((w->name = zeros(&w->name##_bytes, length, sizeof(type))) == NULL) \
        return -1;
    ARRAYS(ALLOCATE)
#undef ALLOCATE
    w->sent = PyMem_Calloc((size_t)workers, sizeof *w->sent);
    w->ready = PyMem_Calloc((size_t)workers, sizeof *w->ready);
    w->clock = PyMem_Calloc((size_t)workers, sizeof *w->clock);
    if (w->sent == NULL || w->ready == NULL || w->clock == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static PyObject *wave_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"rows", "workers", "block", "servers", "bound", NULL};
    Wave *w = (Wave *)type->tp_alloc(type, 0);
    if (w == NULL)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(args, named, "LLLLL", names, &w->rows, &w->workers, &w->block, &w->servers,
                                     &w->bound)) {
        Py_DECREF(w);
        return NULL;
    }
    if (w->rows < 1 || w->workers < 1 || w->block < 1 || w->servers < 1 || allocate(w)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a wave needs rows, workers, a block and servers");
        Py_DECREF(w);
        return NULL;
    }
    wave_start(w);
    return (PyObject *)w;
}

static void wave_dealloc(Wave *w)
{
#define RELEASE(type, name, length) Py_XDECREF(w->name##_bytes);
    ARRAYS(RELEASE)
#undef RELEASE
    PyMem_Free(w->sent);
    PyMem_Free(w->ready);
    PyMem_Free(w->clock);
    Py_TYPE(w)->tp_free((PyObject *)w);
}

#define SEEN(type, name, length) {#name, T_OBJECT_EX, offsetof(Wave, name##_bytes), READONLY, NULL},
#define SECONDS(name) {#name, T_DOUBLE, offsetof(Wave, name), 0, NULL}
#define NUMBER(name) {#name, T_LONGLONG, offsetof(Wave, name), 0, NULL}

static PyMemberDef wave_members[] = {
    ARRAYS(SEEN)
    SECONDS(decision_s), SECONDS(control_s), SECONDS(transfer_s), SECONDS(data_s), SECONDS(overshoot_s),
    SECONDS(soon_s), SECONDS(next_s), SECONDS(free_s), SECONDS(reached_s), SECONDS(idle_s),
    NUMBER(stop), NUMBER(place), NUMBER(taken), NUMBER(orders), NUMBER(total), NUMBER(going), NUMBER(states),
    NUMBER(shares_memory), {NULL, 0, 0, 0, NULL},
};

static PyMethodDef wave_methods[] = {
    {"advance", (PyCFunction)wave_advance, METH_O, "Follow the events; True: the next one needs no look."},
    {"forget", (PyCFunction)wave_forget, METH_NOARGS, "Forget what has been handled: it is in rows."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject WaveType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.fast_path._waves.Wave",
    .tp_basicsize = sizeof(Wave),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = wave_new,
    .tp_dealloc = (destructor)wave_dealloc,
    .tp_methods = wave_methods,
    .tp_members = wave_members,
};

static struct PyModuleDef waves_module = {PyModuleDef_HEAD_INIT, .m_name = "_waves", .m_size = -1};

PyMODINIT_FUNC PyInit__waves(void)
{
    PyObject *module;
    if (PyType_Ready(&WaveType) < 0 || (module = PyModule_Create(&waves_module)) == NULL)
        return NULL;
    if (PyModule_AddObjectRef(module, "Wave", (PyObject *)&WaveType) < 0 ||
        PyModule_AddIntMacro(module, FULL) < 0 || PyModule_AddIntMacro(module, SOON) < 0 ||
        PyModule_AddIntMacro(module, SPENT) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
