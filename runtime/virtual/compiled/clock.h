/* The virtual clock, a heap of actions by (time, priority, sequence): the twin of runtime/virtual/clock.py. */

enum { MACHINE = 0, NETWORK = 1, MESSAGE = 2 };

typedef struct {
    PyObject_HEAD
    PyObject *timeline;
    double offset_s, now;
    char ended;
} Clock;

typedef struct {
    double lab_s, rest_s, when_s;
    int64_t sequence;
    int priority;
    Clock *clock;
    PyObject *action, *args; /* args: a tuple, or NULL */
} Entry;

typedef struct {
    PyObject_HEAD
    double lab_s, rest_s; /* of the current action */
    PyObject *clock;      /* of the current action's job */
    Entry *heap;
    Py_ssize_t count, room;
    int64_t sequence;
    char told; /* whether a loop over decisions was told something */
} Timeline;

static Kind ClockKind, TimelineKind;

/* ---- the heap -------------------------------------------------------------------------------------------------- */

static inline int is_before(const Entry *one, const Entry *other) {
    if (one->lab_s != other->lab_s)
        return one->lab_s < other->lab_s;
    if (one->rest_s != other->rest_s)
        return one->rest_s < other->rest_s;
    if (one->priority != other->priority)
        return one->priority < other->priority;
    return one->sequence < other->sequence;
}

HEAP(Timeline, Entry, is_before, push_entry, pop_entry)

/* Whether it calls nothing in Python by itself. */
static inline int is_step(const Entry *entry) { return Py_IS_TYPE(entry->action, &StepType); }

static void drop_entry(Entry *entry) {
    Py_DECREF(entry->clock);
    Py_DECREF(entry->action);
    Py_XDECREF(entry->args);
}

static void skip_ended(Timeline *self) {
    while (self->count && self->heap[0].clock->ended) {
        Entry entry = pop_entry(self);
        drop_entry(&entry);
    }
}

/* Forget what jobs that are over had scheduled, and so the jobs; without memory for that, they stay a while. */
static void drop_ended(Timeline *self) {
    Py_ssize_t count = self->count, gone = 0;
    Entry *ended = PyMem_Malloc((count + 1) * sizeof(Entry));
    if (!ended)
        return;
    self->count = 0;
    for (Py_ssize_t k = 0; k < count; k++) /* in place: never more were kept than were looked at */
        if (self->heap[k].clock->ended)
            ended[gone++] = self->heap[k];
        else
            push_entry(self, self->heap[k]);
    while (gone)
        drop_entry(&ended[--gone]);
    PyMem_Free(ended);
}

/* ---- scheduling ------------------------------------------------------------------------------------------------ */

/* The rounded sum and what rounding took away (Knuth's TwoSum); infinite sums have no rest. */
static void exact_sum(double a, double b, double *total, double *rest) {
    double sum = a + b, second = sum - a;
    *total = sum;
    *rest = isinf(sum) ? 0.0 : (a - (sum - second)) + (b - second);
}

/* A job's rounded time may lie an instant before the action that it follows. */
static void not_before_now(const Timeline *self, Entry *entry) {
    if (entry->lab_s < self->lab_s || (entry->lab_s == self->lab_s && entry->rest_s < self->rest_s)) {
        entry->lab_s = self->lab_s;
        entry->rest_s = self->rest_s;
    }
}

static int add_entry(Timeline *self, Clock *clock, double when_s, int priority, PyObject *action, PyObject *args) {
    Entry entry = {when_s, 0.0, when_s, ++self->sequence, priority, clock, action, args};
    if (clock->offset_s)
        exact_sum(clock->offset_s, when_s, &entry.lab_s, &entry.rest_s);
    not_before_now(self, &entry);
    if (push_entry(self, entry))
        return -1;
    Py_INCREF(clock);
    Py_INCREF(action);
    Py_XINCREF(args);
    return 0;
}

/* Act at a time, or now if that has passed. */
static int act_at(Clock *clock, double when_s, int priority, PyObject *action, PyObject *args) {
    when_s = clock->now > when_s ? clock->now : when_s;
    return add_entry((Timeline *)clock->timeline, clock, when_s, priority, action, args);
}

static int is_next(Timeline *self, int priority) {
    Entry now = {self->lab_s, self->rest_s, 0.0, INT64_MAX, priority, NULL, NULL, NULL};
    return !self->count || is_before(&now, &self->heap[0]); /* what is scheduled now would be the last of its kind */
}

static int take_step(Timeline *self) {
    skip_ended(self);
    if (!self->count) {
        PyErr_SetString(PyExc_IndexError, "nothing is scheduled");
        return -1;
    }
    Entry entry = pop_entry(self);
    PyObject *before = self->clock;
    self->lab_s = entry.lab_s;
    self->rest_s = entry.rest_s;
    self->clock = Py_NewRef(entry.clock);
    Py_XDECREF(before);
    entry.clock->now = entry.when_s;
    int failed;
    if (entry.args) {
        python_was_called = 1;
        PyObject *result = PyObject_Call(entry.action, entry.args, NULL);
        failed = !result;
        Py_XDECREF(result);
    } else {
        failed = go_on(entry.action);
    }
    drop_entry(&entry);
    return failed ? -1 : 0;
}

/* Advance to the lab's time: another clock's action affects this job. The exact sum of three floats, rounded once, is
 * Python's math.fsum. */
static int catch_up(Clock *self) {
    static PyObject *fsum;
    Timeline *timeline = (Timeline *)self->timeline;
    double now = timeline->lab_s;
    if (self->offset_s || timeline->rest_s) {
        PyObject *module = fsum ? NULL : PyImport_ImportModule("math"), *found;
        if (module)
            fsum = PyObject_GetAttrString(module, "fsum");
        Py_XDECREF(module);
        found = fsum ? PyObject_CallFunction(fsum, "((ddd))", timeline->lab_s, timeline->rest_s, -self->offset_s)
                     : NULL;
        if (!found)
            return -1;
        now = PyFloat_AsDouble(found);
        Py_DECREF(found);
    }
    self->now = self->now > now ? self->now : now;
    if (timeline->clock != (PyObject *)self)
        Py_XSETREF(timeline->clock, Py_NewRef(self));
    return 0;
}
