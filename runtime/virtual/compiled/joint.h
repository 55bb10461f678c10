/* What machines and the loop over a job's decisions call of each other: two modules, and no Python between them. */

#include <stdint.h>

#define DECISIONS_CAPSULE "runtime.virtual.decisions"
#define HOSTS_CAPSULE "runtime.virtual.hosts"

/* Times of an iteration, as in Timings: the only list of them in C. cpu_s: where processors are modelled. */
#define WORK_TIMES(X) \
    X(wait_s) X(data_s) X(pull_s) X(compute_s) X(send_s) X(injected_s) X(overrun_s) X(recv_s) X(cpu_s)
#define NAME(name) #name,
#define ONE(name) +1
enum { NUM_TIMES = 0 WORK_TIMES(ONE) };

static PyObject *names_of(const char *const *names, Py_ssize_t count) {
    PyObject *found = PyTuple_New(count);
    for (Py_ssize_t i = 0; found && i < count; i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]);
        if (!name)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, i, name);
    }
    return found;
}

#define NAMES(...) names_of((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

enum { NOTHING_BEFORE, PYTHON_BEFORE, TOLD }; /* why machines stop; negative: an exception */

/* Seconds that a sleep takes, which ends late; slept_s: or none, if none is asked for. */
static inline double late_s(double asked_s, double overshoot_s) { return asked_s + overshoot_s; }
static inline double slept_s(double asked_s, double late) { return asked_s > 0 ? late_s(asked_s, late) : 0.0; }

/* What a plan injects into what a task begins at `t`: seconds, and a fraction of its own. None disturbs nobody. */
static int look_up(PyObject *disturb, PyObject *task, double t, double *delay_s, double *slowdown_frac) {
    *delay_s = *slowdown_frac = 0.0;
    if (disturb == Py_None)
        return 0;
    PyObject *found = PyObject_CallFunction(disturb, "Od", task, t);
    int good = found && PyArg_ParseTuple(found, "dd", delay_s, slowdown_frac);
    Py_XDECREF(found);
    return good ? 0 : -1;
}

static int add_to_item(PyObject *list, Py_ssize_t i, double more) {
    double before = PyFloat_AsDouble(PyList_GET_ITEM(list, i));
    PyObject *sum = PyErr_Occurred() ? NULL : PyFloat_FromDouble(before + more);
    return sum ? PyList_SetItem(list, i, sum) : -1;
}

/* One more update in what a server has done: [updates, seconds, injected seconds]. */
static int was_busy(PyObject *done, double seconds, double injected_s) {
    long updates = PyLong_AsLong(PyList_GET_ITEM(done, 0));
    PyObject *more = PyErr_Occurred() ? NULL : PyLong_FromLong(updates + 1);
    if (!more || PyList_SetItem(done, 0, more))
        return -1;
    return add_to_item(done, 1, seconds) || add_to_item(done, 2, injected_s) ? -1 : 0;
}

/* The loop: a gradient of the work at a place is there, and is told at a time; the times are those of Timings. */
typedef struct {
    void *loop;
    int (*arrive)(void *loop, int64_t place, double when_s, const double *times);
} Decisions;

/* The machines, whose clock and whose numbers of what is scheduled the loop shares. */
typedef struct {
    void *chain;
    int64_t *sequence;
    double *now;
    int (*begin)(void *chain, int64_t place, int64_t grad_id, PyObject *worker, Py_ssize_t samples, Py_ssize_t accum,
                 double delay_s, double slowdown_frac, double sent_s);
    int (*update)(void *chain, double sent_s, Py_ssize_t num_grads, PyObject *disturb);
    int (*run)(void *chain, double before_s, int priority, int64_t sequence); /* what happens before that */
    void (*act)(void *chain, double now_s);                                   /* the loop acts at a time */
} Hosts;
