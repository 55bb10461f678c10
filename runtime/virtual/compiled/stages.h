/* The stages of an iteration and which may follow which: every iteration obeys this table. iteration.h does the rest. */

typedef enum {
    ORDERED,     /* its order is on the way, and parameters may be, too; its worker waits, on its processor if it polls */
    WAITING,     /* for its process, which may be paused */
    UPDATING,    /* a replica carries out its earlier orders */
    LOADING,     /* its batch */
    RECEIVING,   /* parameters: the batch is there */
    COPYING_IN,  /* parameters into its memory */
    COMPUTING,   /* its gradient */
    PACING,      /* asleep, since the emulated device is slower than the real one */
    DELAYED,     /* asleep, by what a plan injects */
    COMPUTED,    /* the gradient is there, and may be held */
    COPYING_OUT, /* the gradient of its memory */
    PUSHING,     /* the gradient travels */
    TAKEN,       /* all of it is there; a paused worker says so when it continues */
} Stage;

_Static_assert(TAKEN + 1 == NUM_STAGES, "a chain has as many detours as there are stages");

#define TO(stage) (1u << (stage))

typedef struct {
    const char *name;
    unsigned next;            /* the stages that may follow */
    int (*enter)(Iteration *); /* notes what was, and sets the amount of what is done; NULL: nothing */
    int (*act)(Iteration *);   /* begins what takes time */
    int (*leave)(Iteration *); /* after that; NULL: something else ends the stage */
} Row;

static const Row ROWS[NUM_STAGES];

/* Carry out a stage by what Python has for it: 1 if that does it, 0 if the kernel has to, -1 with an exception. */
static int by_detour(Iteration *one, PyObject *detour) {
    python_was_called = 1;
    PyObject *found = PyObject_CallOneArg(detour, (PyObject *)one);
    int carries = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return carries;
}

static int enter_stage(Iteration *one, Stage to) {
    const Row *row = &ROWS[to];
    PyObject *detour = one->chain->detours[to];
    one->stage = to;
    one->begun_s = one->chain->clock->now;
    if (row->enter && row->enter(one))
        return -1;
    int carried = detour ? by_detour(one, detour) : 0;
    return carried ? (carried < 0 ? -1 : 0) : row->act(one);
}

/* Go on to another stage. */
static int advance_to(Iteration *one, Stage to) {
    if (ROWS[one->stage].next & TO(to))
        return enter_stage(one, to);
    PyErr_Format(PyExc_ValueError, "an iteration that is %s cannot be %s next", ROWS[one->stage].name, ROWS[to].name);
    return -1;
}

/* The stage of this name; -1 with a ValueError. */
static int stage_named(PyObject *name) {
    for (int stage = 0; PyUnicode_Check(name) && stage < NUM_STAGES; stage++)
        if (!PyUnicode_CompareWithASCIIString(name, ROWS[stage].name))
            return stage;
    PyErr_Format(PyExc_ValueError, "stage=%R: there is none of this name", name);
    return -1;
}

/* ---- what takes time ------------------------------------------------------------------------------------------- */

/* What its worker did in its stage is done. */
static int run_leave(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    return come_back(one->chain) ? -1 : ROWS[one->stage].leave(one);
}

static Step *then_leave(Iteration *one) { return make_step(run_leave, one, NULL, NULL, 0.0, 0); }

/* Let its worker do the stage's amount of something. */
static int let_worker(Iteration *one, int (*acts)(TaskWork *, Task *, double, PyObject *)) {
    Chain *self = one->chain;
    Step *next = then_leave(one);
    int failed = !next || go_there(self) || acts(self->work, one->worker->task, one->amount, (PyObject *)next);
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

static int act_work(Iteration *one) { return let_worker(one, work_task); }

static int act_compute(Iteration *one) { return let_worker(one, compute_task); }

static int act_sleep(Iteration *one) { return let_worker(one, sleep_task); }

/* Until its process is not paused. */
static int act_awake(Iteration *one) {
    Step *next = then_leave(one);
    int failed = !next || when_awake(one->worker->task, (PyObject *)next);
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

static int act_at_once(Iteration *one) { return ROWS[one->stage].leave(one); }

static int act_nothing(Iteration *one) { return 0; } /* others end the stage */
