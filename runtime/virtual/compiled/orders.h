/* The orders of one task, a server or a replica, which it carries out one after another. */

typedef struct {
    double latency_s, carry_per_byte_s, within_per_byte_s, update_base_s, update_per_byte_s, sleep_overshoot_s, server_cores;
    double compute_base_s, compute_per_sample_s, stage_base_s, data_base_s, data_per_sample_s, control_s, worker_cores;
    double interrupt_per_byte_s, wait_cores, server_wait_cores, message_sigma;
} Prices; /* of runtime/virtual/costs.py */

typedef struct {
    PyObject_HEAD
    TaskWork *work; /* on the machines, which have a clock of their own if jobs share them */
    Clock *clock;   /* the job's */
    PyObject *task, *there; /* its name in the job and on the machines */
    Task *known;            /* the latter's task, once it was looked for */
    PyObject *cores;        /* task -> its cores, if some were allocated */
    PyObject *busy;         /* [updates, seconds, injected seconds], by place */
    Py_ssize_t place;
    double num_bytes;
    PyObject *costs; /* what it was made from */
    Prices prices;
    PyObject **orders; /* a ring */
    Py_ssize_t first, count, room;
    double begun_s, updated_s; /* of the update that it makes */
    char gone, working, looking;
} Queue;

static Kind QueueKind;

/* The clock of the side that acts next catches up, where there are two. */
static inline int change_side(Clock *from, Clock *to) { return from == to ? 0 : catch_up(to); }

/* By how much work takes longer on so many cores, as Costs.stretch; -1 with an exception. */
static double stretch_of(double uses_cores, PyObject *cores, PyObject *key) {
    PyObject *found = PyDict_GET_SIZE(cores) ? PyDict_GetItemWithError(cores, key) : NULL;
    if (!found)
        return PyErr_Occurred() ? -1.0 : 1.0;
    double has = PyFloat_AsDouble(found);
    if (PyErr_Occurred())
        return -1.0;
    return uses_cores / has > 1.0 ? uses_cores / has : 1.0;
}

/* The server's task, borrowed; NULL without an exception if it has left. */
static Task *task_of(Queue *self) {
    if (self->known && self->known->is_here)
        return self->known;
    Task *found = (Task *)PyDict_GetItemWithError(self->work->tasks, self->there);
    if (found)
        Py_XSETREF(self->known, (Task *)Py_NewRef(found));
    return found;
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

static int append_order(Queue *self, PyObject *order) {
    if (self->count == self->room) {
        Py_ssize_t room = 2 * self->room + 8;
        PyObject **wider = PyMem_Malloc(room * sizeof(PyObject *));
        if (!wider) {
            PyErr_NoMemory();
            return -1;
        }
        for (Py_ssize_t i = 0; i < self->count; i++)
            wider[i] = self->orders[(self->first + i) % self->room];
        PyMem_Free(self->orders);
        self->orders = wider;
        self->room = room;
        self->first = 0;
    }
    self->orders[(self->first + self->count++) % self->room] = Py_NewRef(order);
    return 0;
}

static PyObject *take_order(Queue *self) {
    PyObject *order = self->orders[self->first];
    self->first = (self->first + 1) % self->room;
    self->count--;
    return order;
}

static int next_orders(Queue *self);

static int order_done(Queue *self) {
    self->working = 0;
    return next_orders(self);
}

static int run_order_done(Step *step) { return order_done((Queue *)step->owner); }

/* Compiled orders say themselves when they are done; others call what they are given. */
static int begin_order(Queue *self, PyObject *order) {
    if (Py_IS_TYPE(order, &StepType))
        return go_on(order);
    PyObject *done = (PyObject *)make_step(run_order_done, self, NULL, NULL, 0.0, 0);
    PyObject *result = done ? PyObject_CallOneArg(order, done) : NULL;
    python_was_called = 1;
    Py_XDECREF(done);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int run_begin_order(Step *step) {
    Queue *self = (Queue *)step->owner;
    return change_side(self->work->clock, self->clock) ? -1 : begin_order(self, step->one);
}

static int begin_when_awake(Queue *self, PyObject *order) {
    Task *task = task_of(self);
    if (!task || !task->paused)
        return PyErr_Occurred() ? -1 : begin_order(self, order);
    PyObject *awake = (PyObject *)make_step(run_begin_order, self, order, NULL, 0.0, 0);
    int failed = !awake || when_awake(task, awake);
    Py_XDECREF(awake);
    return failed ? -1 : 0;
}

/* Start the next orders; a loop, because many orders take no time at all. */
static int next_orders(Queue *self) {
    int failed = 0;
    if (self->looking)
        return 0;
    self->looking = 1;
    while (!failed && self->count && !self->working) {
        PyObject *order = take_order(self);
        self->working = 1;
        failed = begin_when_awake(self, order);
        Py_DECREF(order);
    }
    self->looking = 0;
    return failed ? -1 : 0;
}

static int put_order(Queue *self, PyObject *order) {
    if (self->gone)
        return 0;
    return append_order(self, order) || next_orders(self) ? -1 : 0;
}

static int run_put(Step *step) { return put_order((Queue *)step->owner, step->one); }

/* It reaches the server at a time. */
static int put_at(Queue *self, double at_s, Step *order) {
    PyObject *put = order ? (PyObject *)make_step(run_put, self, order, NULL, 0.0, 0) : NULL;
    int failed = !put || act_at(self->clock, at_s, MACHINE, put, NULL);
    Py_XDECREF(put);
    Py_XDECREF(order);
    return failed ? -1 : 0;
}

static Task *needed_task_of(Queue *self) {
    Task *found = task_of(self);
    if (!found && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, self->there);
    return found;
}

/* ---- an update ------------------------------------------------------------------------------------------------- */

/* From its first update on it polls whenever it waits. */
static int wait_for_orders(Queue *self) {
    Task *task = self->prices.server_wait_cores ? task_of(self) : NULL;
    if (!task)
        return PyErr_Occurred() ? -1 : 0;
    return change_side(self->clock, self->work->clock) ||
                   begin_polling(self->work, task, self->prices.server_wait_cores) ||
                   change_side(self->work->clock, self->clock)
               ? -1
               : 0;
}

static int end_update(Queue *self) {
    double now = self->clock->now;
    PyObject *done = PyList_GET_ITEM(self->busy, self->place);
    return was_busy(done, now - self->begun_s, now - self->updated_s) || wait_for_orders(self) ? -1 : order_done(self);
}

static int run_end_update(Step *step) {
    Queue *self = (Queue *)step->owner;
    return change_side(self->work->clock, self->clock) ? -1 : end_update(self);
}

/* After the work it sleeps for its injected delay (s: seconds, r: a fraction of the work's). */
static int run_updated(Step *step) {
    Queue *self = (Queue *)step->owner;
    if (change_side(self->work->clock, self->clock))
        return -1;
    self->updated_s = self->clock->now;
    double asked_s = step->s + step->r * (self->updated_s - self->begun_s);
    if (!(asked_s > 0))
        return end_update(self);
    Task *task = needed_task_of(self);
    PyObject *end = task ? (PyObject *)make_step(run_end_update, self, NULL, NULL, 0.0, 0) : NULL;
    int failed = !end || change_side(self->clock, self->work->clock) ||
                 sleep_task(self->work, task, late_s(asked_s, self->prices.sleep_overshoot_s), end);
    Py_XDECREF(end);
    return failed ? -1 : 0;
}

static int run_update(Step *step) { /* n: gradients */
    Queue *self = (Queue *)step->owner;
    const Prices *prices = &self->prices;
    double longer = stretch_of(prices->server_cores, self->cores, self->task);
    double seconds = (prices->update_base_s + prices->update_per_byte_s * self->num_bytes * step->n) * longer;
    Task *task = longer < 0 ? NULL : needed_task_of(self);
    Step *updated = task ? make_step(run_updated, self, NULL, NULL, step->s, 0) : NULL;
    if (!updated)
        return -1;
    updated->r = step->r;
    self->begun_s = self->clock->now;
    int failed = change_side(self->clock, self->work->clock) ||
                 compute_task(self->work, task, seconds, (PyObject *)updated);
    Py_DECREF(updated);
    return failed ? -1 : 0;
}

static int order_update(Queue *self, double at_s, Py_ssize_t num_grads, double delay_s, double slowdown_frac) {
    Step *order = make_step(run_update, self, NULL, NULL, delay_s, num_grads);
    if (order)
        order->r = slowdown_frac;
    return put_at(self, at_s, order);
}

/* An update on every server of a list, with what is injected into it. */
static int order_all(PyObject *queues, double at_s, Py_ssize_t num_grads, PyObject *disturb, double sent_s) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(queues); i++) {
        Queue *one = (Queue *)PyList_GET_ITEM(queues, i);
        double delay_s, slowdown_frac;
        if (!Py_IS_TYPE(one, &QueueKind.type)) {
            PyErr_SetString(PyExc_TypeError, "a compiled queue is needed");
            return -1;
        }
        if (look_up(disturb, one->task, sent_s, &delay_s, &slowdown_frac) ||
            order_update(one, at_s, num_grads, delay_s, slowdown_frac))
            return -1;
    }
    return 0;
}
