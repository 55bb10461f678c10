/* What machines and the loop over a job's decisions call of each other: two modules, and no Python between them. */

#include <stdint.h>

#define DECISIONS_CAPSULE "runtime.virtual.decisions"
#define HOSTS_CAPSULE "runtime.virtual.hosts"

enum { NOTHING_BEFORE, PYTHON_BEFORE, TOLD }; /* why machines stop; negative: an exception */

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
    int (*update)(void *chain, double sent_s, Py_ssize_t num_grads, const double *delay_s, const double *slowdown_frac);
    int (*run)(void *chain, double before_s, int priority, int64_t sequence); /* what happens before that */
    void (*act)(void *chain, double now_s);                                   /* the loop acts at a time */
} Hosts;
