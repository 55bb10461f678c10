/* Activities that follow a clock, each calling back at its end: the twin of machines/sharing.py. */

typedef struct {
    PyObject_HEAD
    Clock *clock;
    Fluid *fluid;
    PyObject *done;                /* account -> what was booked on it */
    PyObject *settle, *complete;   /* the two steps below */
    int settling;
    double due_s;
} Sharing;

static int act_now(Sharing *self, int priority, PyObject *step) {
    return act_at(self->clock, self->clock->now, priority, step, NULL);
}

/* Schedule one settlement for everything that begins or ends at this moment. */
static int settle_soon(Sharing *self) {
    if (self->settling)
        return 0;
    self->settling = 1;
    return act_now(self, NETWORK, self->settle);
}

static int settle(Sharing *self) {
    double due_s = next_end(self->fluid);
    self->settling = 0;
    int is_new = due_s != self->due_s && isfinite(due_s);
    self->due_s = due_s;
    return is_new ? act_at(self->clock, due_s, MACHINE, self->complete, NULL) : 0;
}

/* Begin an activity now; then is called at its end, and what is done of it is booked on the accounts (a tuple). */
static int begin_share(Sharing *self, PyObject *key, double amount, PyObject *resources, PyObject *then,
                       PyObject *accounts, double limit) {
    Activity *one = start_activity(self->fluid, self->clock->now, key, amount, resources, limit, 1.0);
    if (!one)
        return -1;
    one->then = Py_NewRef(then);
    one->accounts = Py_NewRef(accounts);
    return settle_soon(self);
}

static double booked(Sharing *self, PyObject *account) {
    PyObject *found = PyDict_GetItemWithError(self->done, account);
    return found ? PyFloat_AS_DOUBLE(found) : 0.0;
}

/* Book what was done of an activity. */
static int book(Sharing *self, Activity *one, double left) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(one->accounts); i++) {
        PyObject *account = PyTuple_GET_ITEM(one->accounts, i);
        PyObject *sum = PyFloat_FromDouble(booked(self, account) + one->amount - left);
        int failed = !sum || PyDict_SetItem(self->done, account, sum);
        Py_XDECREF(sum);
        if (failed)
            return -1;
    }
    return 0;
}

/* End an activity early, if it is in progress. */
static int stop_share(Sharing *self, PyObject *key) {
    Activity *one = address_in(self->fluid->keys, key);
    if (!one)
        return PyErr_Occurred() ? -1 : 0;
    if (advance(self->fluid, self->clock->now))
        return -1;
    double left = abandon(self->fluid, self->clock->now, one);
    return book(self, one, left) || discard(self->fluid, one) || settle_soon(self) ? -1 : 0;
}

/* Whether what is done of an activity is booked on an account; -1 with an exception. */
static int is_booked_on(const Activity *one, PyObject *account) { return PySequence_Contains(one->accounts, account); }

static Py_ssize_t count_booked_on(Sharing *self, PyObject *account) {
    Py_ssize_t count = 0;
    for (Activity *one = self->fluid->first; one; one = one->after) {
        int counts = is_booked_on(one, account);
        if (counts < 0)
            return -1;
        count += counts;
    }
    return count;
}

/* All activities of an account in progress have this weight together, each an equal part of it. */
static int divide(Sharing *self, PyObject *account, double weight) {
    Py_ssize_t count = count_booked_on(self, account);
    for (Activity *one = self->fluid->first; count > 0 && one; one = one->after) {
        int counts = is_booked_on(one, account);
        if (counts < 0)
            return -1;
        if (!counts || weight / count == one->weight)
            continue;
        if (reweigh(self->fluid, self->clock->now, one, weight / count) || settle_soon(self))
            return -1;
    }
    return count < 0 ? -1 : 0;
}

/* Take what happens at the ends of completed activities out of the model, as a tuple; it may start others. */
static PyObject *close_completed(Sharing *self) {
    Fluid *fluid = self->fluid;
    sort_ended(fluid);
    Py_ssize_t count = fluid->num_ended;
    PyObject *all = PyTuple_New(count);
    fluid->num_ended = 0;
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyTuple_SET_ITEM(all, i, Py_NewRef(fluid->ended[i]->then));
        if (book(self, fluid->ended[i], 0.0) || discard(fluid, fluid->ended[i]))
            Py_CLEAR(all);
    }
    return all;
}

/* Call back completed activities; after a change of rates there may be none. */
static int complete(Sharing *self) {
    if (self->clock->now < self->due_s)
        return 0;
    if (advance(self->fluid, self->clock->now))
        return -1;
    self->due_s = INFINITY;
    int settles = !self->settling;
    self->settling = 1;
    PyObject *all = close_completed(self);
    int failed = !all;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(all); i++)
        failed = go_on(PyTuple_GET_ITEM(all, i));
    Py_XDECREF(all);
    if (failed || !settles)
        return failed ? -1 : 0;
    return is_next((Timeline *)self->clock->timeline, NETWORK) ? settle(self) : act_now(self, NETWORK, self->settle);
}

static int run_settle(Step *step) { return settle((Sharing *)step->owner); }

static int run_complete(Step *step) { return complete((Sharing *)step->owner); }

/* The sum of all that was booked, with what is done by now of activities in progress; -1 with an exception. */
static double done_by_now(Sharing *self, PyObject *account) {
    Sum sum = {0.0, 0.0};
    for (Activity *one = self->fluid->first; one; one = one->after) {
        int counts = is_booked_on(one, account);
        if (counts < 0)
            return -1.0;
        if (counts)
            add_to(&sum, one->amount - left_of(one, self->clock->now));
    }
    return booked(self, account) + total_of(&sum);
}
