/* What a loop over a job's decisions calls of its machines, see joint.h. */

static Worker *find_worker(Chain *chain, PyObject *number);
static Iteration *make_iteration(Chain *chain, Worker *worker, PyObject *order, PyObject *result);

static int begin_with(Chain *self, PyObject *order, PyObject *result, int64_t place, int64_t grad_id, PyObject *number,
                      Py_ssize_t samples, Py_ssize_t accum, double delay_s, double slowdown_frac, double sent_s) {
    Worker *worker = find_worker(self, number);
    Iteration *one = worker ? make_iteration(self, worker, order, result) : NULL;
    if (!one)
        return -1;
    one->place = place;
    one->grad_id = grad_id;
    one->samples = samples;
    one->accum = accum;
    one->delay_s = delay_s;
    one->slowdown_frac = slowdown_frac;
    one->sent_s = sent_s;
    int failed = begin_iteration(one);
    Py_DECREF(one);
    return failed;
}

static int joined_begin(void *chain, int64_t place, int64_t grad_id, PyObject *number, Py_ssize_t samples,
                        Py_ssize_t accum, double delay_s, double slowdown_frac, double sent_s) {
    return begin_with(chain, Py_None, ((Chain *)chain)->result, place, grad_id, number, samples, accum, delay_s,
                      slowdown_frac, sent_s);
}

static int joined_update(void *chain, double sent_s, Py_ssize_t num_grads, PyObject *disturb) {
    Chain *self = chain;
    return order_all(self->queues, sent_s + self->prices.control_s, num_grads, disturb, sent_s);
}

static int joined_run(void *chain, double before_s, int priority, int64_t sequence) {
    Timeline *timeline = (Timeline *)((Chain *)chain)->clock->timeline;
    Entry bound = {before_s, 0.0, before_s, sequence, priority, NULL, NULL, NULL};
    timeline->told = 0;
    for (;;) {
        skip_ended(timeline);
        if (!timeline->count || !is_before(&timeline->heap[0], &bound))
            return NOTHING_BEFORE;
        if (!is_step(&timeline->heap[0]))
            return PYTHON_BEFORE;
        if (take_step(timeline))
            return -1;
        if (timeline->told)
            return TOLD;
    }
}

static void joined_act(void *chain, double now_s) {
    Clock *clock = ((Chain *)chain)->clock;
    Timeline *timeline = (Timeline *)clock->timeline;
    clock->now = timeline->lab_s = now_s;
    timeline->rest_s = 0.0;
}

/* A capsule for a loop, which keeps the chain; it is the machines' of a job whose clock begins at 0. */
static PyObject *join(Chain *self, PyObject *result) {
    if (self->clock->offset_s || self->clock != self->work->clock || !PyTuple_Check(result)) {
        PyErr_SetString(PyExc_ValueError, "only machines of a job's own, from the start, can be joined");
        return NULL;
    }
    Timeline *timeline = (Timeline *)self->clock->timeline;
    Py_XSETREF(self->result, Py_NewRef(result));
    self->hosts = (Hosts){self,          &timeline->sequence, &self->clock->now, joined_begin,
                          joined_update, joined_run,          joined_act};
    return PyCapsule_New(&self->hosts, HOSTS_CAPSULE, NULL);
}
