/* An iteration of a worker, from its order to its gradient: the twin of tasks/host_workers.py with servers. */

typedef struct {
    PyObject_HEAD
    TaskWork *work;
    Clock *clock;
    PyObject *queues; /* of the servers that hold parameters, by place: a list */
    PyObject *names;  /* worker -> its name on the machines */
    PyObject *jitter, *profiles, *cores, *idle_since_s, *under_way; /* by worker, as in WorkerModel */
    PyObject *workers;                                              /* worker -> Worker */
    PyObject *ended;                                                /* called at the end, with the time */
    PyObject *timings, *arrived; /* the classes of an iteration's times and of the coordinator's input */
    PyObject *tell;              /* that takes the input; NULL: ended is called */
    PyObject *loop, *result;     /* a capsule of the loop that decides, and what its gradients say; or None */
    Hosts hosts;
    Prices prices;
    double copy_s, send_s, uses_cores;
    char shares_memory;
} Chain;

/* What does not change from one iteration of a worker to the next. */
typedef struct {
    PyObject_HEAD
    PyObject *number, *name;
    Task *task;
    Way **ways; /* from and to the server at every place, or NULL */
    Py_ssize_t num_ways;
} Worker;

typedef struct {
    PyObject_HEAD
    Chain *chain;
    Worker *worker;
    PyObject *order, *result;
    char gone; /* the twin's void */
    long long place, grad_id; /* the first in a loop that decides; the second where it has given the order */
    double wait_s, data_s, pull_s, compute_s, injected_s, overrun_s, loaded_s, since_s, recv_s, receiving_since_s;
    double cpu_s, charged_s, delay_s, slowdown_frac; /* charged_s: to the worker when it began to compute */
    Py_ssize_t samples, accum, missing, receiving;
} Iteration;

static PyTypeObject ChainType, WorkerType, IterationType;

#define NUM_TIMES 9
static PyObject *names_of_times, *name_grad_id, *name_factor; /* made once, with the types */

static inline double positive(double seconds) { return seconds > 0.0 ? seconds : 0.0; }

/* To the machines, and back to the job. */
static inline int go_there(Chain *self) { return change_side(self->clock, self->work->clock); }

static inline int come_back(Chain *self) { return change_side(self->work->clock, self->clock); }

static Step *then(Run run, Iteration *one) { return make_step(run, one, NULL, NULL, 0.0, 0); }

/* Let its worker do something for so many seconds or core-seconds; takes the reference to what follows. */
static int let_worker(Iteration *one, int (*acts)(TaskWork *, Task *, double, PyObject *), double amount, Step *next) {
    Chain *self = one->chain;
    int failed = !next || go_there(self) || acts(self->work, one->worker->task, amount, (PyObject *)next);
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

static int when_worker_is_awake(Iteration *one, Step *next) {
    int failed = !next || when_awake(one->worker->task, (PyObject *)next);
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

/* What a dict holds for a key, borrowed; NULL with a KeyError. */
static PyObject *item_of(PyObject *dict, PyObject *key) {
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (!found && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    return found;
}

/* The queue of a server, borrowed; NULL with an exception. */
static Queue *queue_at(Chain *self, Py_ssize_t place) {
    PyObject *found = PyList_GetItem(self->queues, place);
    if (found && !Py_IS_TYPE(found, &QueueType)) {
        PyErr_SetString(PyExc_TypeError, "a compiled chain needs compiled queues");
        return NULL;
    }
    return (Queue *)found;
}

/* The way between a worker and the server at a place, either way, borrowed. */
static Way *way_between(Chain *self, Worker *worker, Py_ssize_t place, int to_server) {
    Queue *server = queue_at(self, place);
    Py_ssize_t at = 2 * place + to_server;
    if (!server)
        return NULL;
    if (at >= worker->num_ways) {
        Py_ssize_t count = 2 * PyList_GET_SIZE(self->queues);
        if (widen(&worker->ways, count))
            return NULL;
        while (worker->num_ways < count)
            worker->ways[worker->num_ways++] = NULL;
    }
    Way *way = worker->ways[at];
    if (way && way->generation == self->work->generation && PyTuple_GET_ITEM(way->path, to_server) == server->there)
        return way;
    PyObject *path = to_server ? PyTuple_Pack(2, worker->name, server->there)
                               : PyTuple_Pack(2, server->there, worker->name);
    way = path ? find_way(self->work, path) : NULL;
    Py_XDECREF(path);
    if (way)
        Py_XSETREF(worker->ways[at], (Way *)Py_NewRef(way));
    return way;
}

/* Work at either end of a message, per byte. */
static double price_of(const Chain *self, const Way *way) {
    return is_apart(way) ? self->prices.carry_per_byte_s : self->prices.within_per_byte_s;
}

/* Core-seconds of sending a gradient; negative with an exception. */
static double send_s(Chain *self, Worker *worker) {
    double carry_s = 0.0;
    if (self->prices.within_per_byte_s == self->prices.carry_per_byte_s || self->shares_memory)
        return self->send_s;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(self->queues); place++) {
        Way *way = way_between(self, worker, place, 1);
        if (!way)
            return -1.0;
        carry_s += price_of(self, way) * queue_at(self, place)->num_bytes;
    }
    return self->copy_s + carry_s;
}

/* A message between its worker and the server at a place, either way; takes the reference to what follows. */
static int send_between(Iteration *one, Py_ssize_t place, int to_server, Step *next) {
    Chain *self = one->chain;
    Way *way = next ? way_between(self, one->worker, place, to_server) : NULL;
    int failed = !way || go_there(self);
    if (!failed) {
        double num_bytes = queue_at(self, place)->num_bytes;
        failed = send_on(self->work, one->worker->task, way, num_bytes, self->prices.latency_s, (PyObject *)next,
                         price_of(self, way) * num_bytes, self->prices.interrupt_per_byte_s * num_bytes);
    }
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

/* ---- the gradient ---------------------------------------------------------------------------------------------- */

/* The fields of Timings, in the order of names_of_times. */
static void times_of(const Iteration *one, double taken_s, double *all) {
    double found[NUM_TIMES] = {one->wait_s,     one->data_s,    one->pull_s, one->compute_s, taken_s - one->since_s,
                               one->injected_s, one->overrun_s, one->recv_s, one->cpu_s};
    memcpy(all, found, sizeof found);
}

static PyObject *timings_of(Iteration *one, double taken_s) {
    double all[NUM_TIMES];
    times_of(one, taken_s, all);
    PyObject *given[NUM_TIMES], *made = NULL;
    int count = 0;
    while (count < NUM_TIMES && (given[count] = PyFloat_FromDouble(all[count])))
        count++;
    if (count == NUM_TIMES)
        made = PyObject_Vectorcall(one->chain->timings, given, 0, names_of_times);
    while (count--)
        Py_DECREF(given[count]);
    return made;
}

/* What the coordinator is told: GradientArrived(grad_id, worker, timings, loss, sqr_norm, finite). */
static PyObject *input_of(Iteration *one, double taken_s) {
    PyObject *grad_id = one->order == Py_None ? PyLong_FromLongLong(one->grad_id)
                                              : PyObject_GetAttr(one->order, name_grad_id);
    PyObject *timings = timings_of(one, taken_s), *made = NULL;
    if (grad_id && timings) {
        PyObject *given[] = {grad_id,
                             one->worker->number,
                             timings,
                             PyTuple_GET_ITEM(one->result, 0),
                             PyTuple_GET_ITEM(one->result, 1),
                             PyTuple_GET_ITEM(one->result, 2)};
        made = PyObject_Vectorcall(one->chain->arrived, given, 6, NULL);
    }
    Py_XDECREF(grad_id);
    Py_XDECREF(timings);
    return made;
}

/* Tell the loop that decides. */
static int tell_loop(Iteration *one, double taken_s) {
    Chain *self = one->chain;
    Decisions *decisions = PyCapsule_GetPointer(self->loop, DECISIONS_CAPSULE);
    double times[NUM_TIMES];
    times_of(one, taken_s, times);
    ((Timeline *)self->clock->timeline)->told = 1;
    return decisions ? decisions->arrive(decisions->loop, one->place, taken_s + self->prices.control_s, times) : -1;
}

/* Tell the coordinator, as WorkerModel._end and VirtualSession._arrived do. */
static int tell_arrival(Iteration *one, double taken_s) {
    Chain *self = one->chain;
    PyObject *idle = PyFloat_FromDouble(taken_s);
    int failed = !idle || PyDict_SetItem(self->idle_since_s, one->worker->number, idle) ||
                 PyDict_DelItem(self->under_way, one->worker->number);
    Py_XDECREF(idle);
    if (!failed && self->loop && self->loop != Py_None)
        return tell_loop(one, taken_s);
    PyObject *given = failed ? NULL : input_of(one, taken_s), *args = given ? PyTuple_Pack(1, given) : NULL;
    failed = !args || act_at(self->clock, taken_s + self->prices.control_s, MESSAGE, self->tell, args);
    Py_XDECREF(given);
    Py_XDECREF(args);
    return failed ? -1 : 0;
}

static int end_iteration(Iteration *one, double taken_s) {
    Chain *self = one->chain;
    if (self->tell)
        return tell_arrival(one, taken_s);
    PyObject *when = PyFloat_FromDouble(taken_s), *result = NULL;
    python_was_called = 1;
    if (when && self->ended)
        result = PyObject_CallFunctionObjArgs(self->ended, (PyObject *)one, when, NULL);
    Py_XDECREF(when);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int run_end(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    return come_back(one->chain) ? -1 : end_iteration(one, one->chain->clock->now);
}

/* An order of a server (other), which has taken its part; a paused worker reports only when it continues. */
static int run_taken(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    if (!--one->missing && !one->gone && when_worker_is_awake(one, then(run_end, one)))
        return -1;
    return order_done((Queue *)step->other);
}

static int run_hand_over(Step *step) { /* n: the server's place */
    Iteration *one = (Iteration *)step->owner;
    Queue *server = queue_at(one->chain, step->n);
    Step *taken = server ? make_step(run_taken, one, NULL, server, 0.0, 0) : NULL;
    int failed = !taken || come_back(one->chain) || put_order(server, (PyObject *)taken);
    Py_XDECREF(taken);
    return failed ? -1 : 0;
}

static int run_push_parts(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    Chain *self = one->chain;
    int failed = come_back(self);
    one->missing = PyList_GET_SIZE(self->queues);
    for (Py_ssize_t i = 0; !failed && i < one->missing; i++)
        failed = send_between(one, i, 1, make_step(run_hand_over, one, NULL, NULL, 0.0, i));
    return failed;
}

static int push_gradient(Iteration *one, double computed_s) {
    Chain *self = one->chain;
    double now = self->clock->now;
    one->injected_s = now - computed_s;
    one->compute_s = now - one->since_s;
    one->cpu_s += one->worker->task->charged_s - one->charged_s;
    one->since_s = now;
    return self->shares_memory ? end_iteration(one, now)
                               : let_worker(one, work_task, self->copy_s, then(run_push_parts, one));
}

static int run_push(Step *step) { /* s: when it was computed */
    Iteration *one = (Iteration *)step->owner;
    return come_back(one->chain) ? -1 : push_gradient(one, step->s);
}

/* ---- the device ------------------------------------------------------------------------------------------------ */

/* Add the injected delay. */
static int add_delay(Iteration *one) {
    double now = one->chain->clock->now, asked_s = one->delay_s + one->slowdown_frac * (now - one->since_s);
    if (!(asked_s > 0))
        return push_gradient(one, now);
    return let_worker(one, sleep_task, asked_s + one->chain->prices.overshoot_s,
                      make_step(run_push, one, NULL, NULL, now, 0));
}

static int run_computed(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    return come_back(one->chain) ? -1 : add_delay(one);
}

/* Seconds that the emulated device takes; -1 with an exception. */
static double paced_seconds(Iteration *one, PyObject *profile) {
    PyObject *found = PyObject_CallMethod(profile, "seconds", "nn", one->samples, one->accum);
    double seconds = found ? PyFloat_AsDouble(found) : -1.0;
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1.0 : seconds;
}

/* The real computation (s: its jitter) is done; the emulated device may take longer. */
static int run_worked(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    Chain *self = one->chain;
    PyObject *profile = item_of(self->profiles, one->worker->number);
    if (!profile || come_back(self))
        return -1;
    double spent_s = self->clock->now - one->since_s, paced_s = 0.0;
    if (profile != Py_None) {
        paced_s = paced_seconds(one, profile);
        if (paced_s < 0)
            return -1;
        if (spent_s <= paced_s * step->s)
            return let_worker(one, sleep_task, paced_s * step->s - spent_s + self->prices.overshoot_s,
                              then(run_computed, one));
    }
    one->overrun_s = profile == Py_None ? 0.0 : positive(spent_s - paced_s);
    return add_delay(one);
}

static double next_factor(Chain *self, PyObject *worker) {
    PyObject *jitter = item_of(self->jitter, worker);
    PyObject *found = jitter ? PyObject_CallMethodNoArgs(jitter, name_factor) : NULL;
    double factor = found ? PyFloat_AsDouble(found) : -1.0;
    Py_XDECREF(found);
    return factor;
}

static int begin_computing(Iteration *one) {
    Chain *self = one->chain;
    one->pull_s = self->clock->now - one->loaded_s;
    one->since_s = self->clock->now;
    double factor = next_factor(self, one->worker->number);
    double longer = PyErr_Occurred() ? -1.0 : stretch_of(self->prices.worker_cores, self->cores, one->worker->number);
    double real_s = (self->prices.compute_base_s * one->accum + self->prices.compute_per_sample_s * one->samples +
                     self->prices.stage_base_s) *
                    factor;
    if (longer < 0)
        return -1;
    one->cpu_s += real_s * self->uses_cores;
    one->charged_s = one->worker->task->charged_s;
    return let_worker(one, compute_task, real_s * longer, make_step(run_worked, one, NULL, NULL, factor, 0));
}

/* ---- batch and parameters -------------------------------------------------------------------------------------- */

static int run_copied(Step *step) { /* s: when it began to copy */
    Iteration *one = (Iteration *)step->owner;
    if (come_back(one->chain))
        return -1;
    one->recv_s += one->chain->clock->now - step->s;
    return begin_computing(one);
}

/* Count the batch or a server's part as received. */
static int received(Iteration *one) {
    if (--one->missing)
        return 0;
    Step *copied = make_step(run_copied, one, NULL, NULL, one->chain->clock->now, 0);
    return let_worker(one, work_task, one->chain->copy_s, copied);
}

/* A server's part has arrived. Parts travel concurrently; the worker waits for them after loading its batch. */
static int run_came(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    if (come_back(one->chain))
        return -1;
    if (!--one->receiving) {
        double free_s = one->loaded_s > one->receiving_since_s ? one->loaded_s : one->receiving_since_s;
        one->recv_s += positive(one->chain->clock->now - free_s);
    }
    return received(one);
}

static int deliver(Iteration *one, Py_ssize_t place) {
    Chain *self = one->chain;
    if (one->gone)
        return 0;
    if (self->shares_memory)
        return received(one);
    if (!one->receiving++)
        one->receiving_since_s = self->clock->now;
    return send_between(one, place, 0, then(run_came, one));
}

static int run_deliver(Step *step) { /* an order of a server (other) at a place (n) */
    return deliver((Iteration *)step->owner, step->n) ? -1 : order_done((Queue *)step->other);
}

static int run_loaded(Step *step) { /* s: when it began to load */
    Iteration *one = (Iteration *)step->owner;
    if (come_back(one->chain))
        return -1;
    one->loaded_s = one->chain->clock->now;
    one->data_s = one->loaded_s - step->s;
    return received(one);
}

static double batch_s(Iteration *one) {
    return one->chain->prices.data_base_s + one->chain->prices.data_per_sample_s * one->samples;
}

static int run_load(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    Chain *self = one->chain;
    PyObject *idle = item_of(self->idle_since_s, one->worker->number);
    double longer = idle ? stretch_of(self->prices.worker_cores, self->cores, one->worker->number) : -1.0;
    if (longer < 0 || come_back(self))
        return -1;
    double now = self->clock->now;
    one->wait_s = positive(now - PyFloat_AsDouble(idle));
    return let_worker(one, compute_task, batch_s(one) * longer, make_step(run_loaded, one, NULL, NULL, now, 0));
}

static int run_reached(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    return one->gone ? 0 : when_worker_is_awake(one, then(run_load, one));
}

static int begin_iteration(Iteration *one, double sent_s) {
    Chain *self = one->chain;
    double reached_s = sent_s + self->prices.control_s;
    double sending_s = send_s(self, one->worker);
    if (sending_s < 0)
        return -1;
    one->cpu_s = batch_s(one) * self->uses_cores + sending_s;
    one->loaded_s = INFINITY;
    one->missing = PyList_GET_SIZE(self->queues) + 1; /* and the batch */
    int failed = PyDict_SetItem(self->under_way, one->worker->number, (PyObject *)one);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(self->queues); i++) {
        Queue *server = queue_at(self, i);
        failed = !server || put_at(server, reached_s, make_step(run_deliver, one, NULL, server, 0.0, i));
    }
    Step *reached = failed ? NULL : then(run_reached, one);
    failed = !reached || act_at(self->clock, reached_s, MACHINE, (PyObject *)reached, NULL);
    Py_XDECREF(reached);
    return failed ? -1 : 0;
}
