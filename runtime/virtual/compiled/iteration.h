/* What an iteration of a worker does in each of its stages, from its order to its gradient. */

/* A message between its worker and the server at a place, either way; takes the reference to what follows. */
static int send_between(Iteration *one, Py_ssize_t place, int to_server, Step *next) {
    Chain *self = one->chain;
    Way *way = next ? way_between(self, one->worker, place, to_server) : NULL;
    int failed = !way || go_there(self);
    if (!failed) {
        double num_bytes = queue_at(self, place)->num_bytes * one->message_factor;
        failed = send_on(self->work, one->worker->task, way, num_bytes, self->prices.latency_s, (PyObject *)next,
                         price_of(self, way) * num_bytes, self->prices.interrupt_per_byte_s * num_bytes);
    }
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

static double next_factor(PyObject *jitters, PyObject *worker) {
    PyObject *jitter = item_of(jitters, worker);
    PyObject *found = jitter ? PyObject_CallMethodNoArgs(jitter, name_factor) : NULL;
    double factor = found ? PyFloat_AsDouble(found) : -1.0;
    Py_XDECREF(found);
    return factor;
}

/* Draw by how much its messages of one way take longer. */
static int draw_messages(Iteration *one) {
    Chain *self = one->chain;
    one->message_factor = self->prices.message_sigma ? next_factor(self->messages, one->worker->number) : 1.0;
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- the order ------------------------------------------------------------------------------------------------- */

static double batch_s(Iteration *one) {
    return one->chain->prices.data_base_s + one->chain->prices.data_per_sample_s * one->samples;
}

static int run_deliver(Step *step);

static int enter_ordered(Iteration *one) {
    Chain *self = one->chain;
    double reached_s = one->sent_s + self->prices.control_s, sending_s = send_s(self, one->worker);
    if (sending_s < 0 || draw_messages(one))
        return -1;
    one->cpu_s = batch_s(one) * self->uses_cores + sending_s;
    one->loaded_s = INFINITY;
    one->missing = PyList_GET_SIZE(self->queues) + 1; /* and the batch */
    int failed = PyDict_SetItem(self->under_way, one->worker->number, (PyObject *)one);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(self->queues); i++) {
        Queue *server = queue_at(self, i);
        failed = !server || put_at(server, reached_s, make_step(run_deliver, one, NULL, server, 0.0, i));
    }
    return failed ? -1 : 0;
}

static int act_travel(Iteration *one) {
    Step *reached = then_leave(one);
    double reached_s = one->sent_s + one->chain->prices.control_s;
    int failed = !reached || act_at(one->chain->clock, reached_s, MACHINE, (PyObject *)reached, NULL);
    Py_XDECREF(reached);
    return failed ? -1 : 0;
}

/* Its worker waits for others; returns 0, or -1 with an exception, as the next does. */
static int begin_waiting(Iteration *one) {
    Chain *self = one->chain;
    if (!self->prices.wait_cores)
        return 0;
    return go_there(self) || begin_polling(self->work, one->worker->task, self->prices.wait_cores) || come_back(self)
               ? -1
               : 0;
}

/* It need not wait any more. */
static int stop_waiting(Iteration *one) {
    Chain *self = one->chain;
    if (!self->prices.wait_cores)
        return 0;
    if (go_there(self) || stop_polling(self->work, one->worker->task) || come_back(self))
        return -1;
    one->cpu_s += take_polled_s(one->worker->task);
    return 0;
}

static int leave_ordered(Iteration *one) {
    if (one->gone)
        return 0;
    return stop_waiting(one) ? -1 : advance_to(one, WAITING);
}

static int leave_waiting(Iteration *one) {
    Chain *self = one->chain;
    PyObject *idle = item_of(self->idle_since_s, one->worker->number);
    if (!idle)
        return -1;
    one->wait_s = positive(self->clock->now - PyFloat_AsDouble(idle));
    return advance_to(one, self->detours[UPDATING] ? UPDATING : LOADING);
}

/* ---- batch and parameters -------------------------------------------------------------------------------------- */

/* By how much its worker's work takes longer; -1 with an exception. */
static double stretch_of_worker(Iteration *one) {
    return stretch_of(one->chain->prices.worker_cores, one->chain->cores, one->worker->number);
}

static int enter_loading(Iteration *one) {
    double longer = stretch_of_worker(one);
    one->amount = batch_s(one) * longer;
    return longer < 0 ? -1 : 0;
}

/* Count the batch or a server's part as received. */
static int received(Iteration *one) { return --one->missing ? 0 : advance_to(one, COPYING_IN); }

static int leave_loading(Iteration *one) {
    one->loaded_s = one->chain->clock->now;
    one->data_s = one->loaded_s - one->begun_s;
    return (one->missing > 1 && advance_to(one, RECEIVING)) || received(one) ? -1 : 0;
}

/* A part has arrived. Parts travel concurrently; the worker waits for them after loading its batch. */
static int part_came(Iteration *one) {
    if (!--one->receiving) {
        double free_s = one->loaded_s > one->receiving_since_s ? one->loaded_s : one->receiving_since_s;
        one->recv_s += positive(one->chain->clock->now - free_s);
    }
    return received(one);
}

static int run_came(Step *step) {
    Iteration *one = (Iteration *)step->owner;
    return come_back(one->chain) ? -1 : part_came(one);
}

static int deliver(Iteration *one, Py_ssize_t place) {
    Chain *self = one->chain;
    if (one->gone)
        return 0;
    if (self->shares_memory)
        return received(one);
    if (!one->receiving++)
        one->receiving_since_s = self->clock->now;
    return send_between(one, place, 0, make_step(run_came, one, NULL, NULL, 0.0, 0));
}

static int run_deliver(Step *step) { /* an order of a server (other) at a place (n) */
    return deliver((Iteration *)step->owner, step->n) ? -1 : order_done((Queue *)step->other);
}

static int enter_copying(Iteration *one) {
    one->amount = one->chain->copy_s;
    return stop_waiting(one);
}

static int leave_copying_in(Iteration *one) {
    one->recv_s += one->chain->clock->now - one->begun_s;
    return advance_to(one, COMPUTING);
}

/* ---- the device ------------------------------------------------------------------------------------------------ */

static int enter_computing(Iteration *one) {
    Chain *self = one->chain;
    one->pull_s = self->clock->now - one->loaded_s + one->updating_s;
    one->since_s = self->clock->now;
    one->factor = next_factor(self->jitter, one->worker->number);
    double longer = PyErr_Occurred() ? -1.0 : stretch_of_worker(one);
    double real_s = (self->prices.compute_base_s * one->accum + self->prices.compute_per_sample_s * one->samples +
                     self->prices.stage_base_s) *
                    one->factor;
    one->cpu_s += real_s * self->uses_cores;
    one->charged_s = one->worker->task->charged_s;
    one->amount = real_s * longer;
    return longer < 0 ? -1 : 0;
}

/* Seconds that the emulated device takes; -1 with an exception. */
static double paced_seconds(Iteration *one, PyObject *profile) {
    PyObject *found = PyObject_CallMethod(profile, "seconds", "nn", one->samples, one->accum);
    double seconds = found ? PyFloat_AsDouble(found) : -1.0;
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1.0 : seconds;
}

/* The device is done; what is injected follows. */
static int delay(Iteration *one) {
    double now = one->chain->clock->now, asked_s = one->delay_s + one->slowdown_frac * (now - one->since_s);
    one->computed_s = now;
    one->amount = late_s(asked_s, one->chain->prices.sleep_overshoot_s);
    return advance_to(one, asked_s > 0 ? DELAYED : COMPUTED);
}

/* The real computation is done; the emulated device may take longer. */
static int leave_computing(Iteration *one) {
    Chain *self = one->chain;
    PyObject *profile = item_of(self->profiles, one->worker->number);
    double spent_s = self->clock->now - one->since_s;
    if (!profile)
        return -1;
    if (profile != Py_None) {
        double paced_s = paced_seconds(one, profile);
        if (paced_s < 0)
            return -1;
        if (spent_s <= paced_s * one->factor) {
            one->amount = late_s(paced_s * one->factor - spent_s, self->prices.sleep_overshoot_s);
            return advance_to(one, PACING);
        }
        one->overrun_s = positive(spent_s - paced_s);
    }
    return delay(one);
}

static int leave_delayed(Iteration *one) { return advance_to(one, COMPUTED); }

/* ---- the gradient ---------------------------------------------------------------------------------------------- */

static int enter_computed(Iteration *one) {
    double now = one->chain->clock->now;
    one->injected_s = now - one->computed_s;
    one->compute_s = now - one->since_s;
    one->cpu_s += one->worker->task->charged_s - one->charged_s;
    one->since_s = now;
    return 0;
}

static int leave_computed(Iteration *one) { return advance_to(one, one->chain->shares_memory ? TAKEN : COPYING_OUT); }

static int leave_copying_out(Iteration *one) { return advance_to(one, PUSHING); }

/* A part of the gradient has been taken. */
static int part_taken(Iteration *one) { return --one->missing || one->gone ? 0 : advance_to(one, TAKEN); }

/* An order of a server (other), which has taken its part. */
static int run_taken(Step *step) {
    return part_taken((Iteration *)step->owner) ? -1 : order_done((Queue *)step->other);
}

static int run_hand_over(Step *step) { /* n: the server's place */
    Iteration *one = (Iteration *)step->owner;
    Queue *server = queue_at(one->chain, step->n);
    Step *taken = server ? make_step(run_taken, one, NULL, server, 0.0, 0) : NULL;
    int failed = !taken || come_back(one->chain) || put_order(server, (PyObject *)taken);
    Py_XDECREF(taken);
    return failed ? -1 : 0;
}

static int enter_pushing(Iteration *one) {
    one->missing = PyList_GET_SIZE(one->chain->queues);
    return draw_messages(one);
}

static int act_push(Iteration *one) {
    int failed = begin_waiting(one);
    for (Py_ssize_t i = 0, count = one->missing; !failed && i < count; i++)
        failed = send_between(one, i, 1, make_step(run_hand_over, one, NULL, NULL, 0.0, i));
    return failed;
}

/* Its worker goes on to wait for the next order. */
static int leave_taken(Iteration *one) {
    return begin_waiting(one) ? -1 : end_iteration(one, one->chain->clock->now);
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static const Row ROWS[NUM_STAGES] = {
    [ORDERED] = {"ordered", TO(WAITING), enter_ordered, act_travel, leave_ordered},
    [WAITING] = {"waiting", TO(UPDATING) | TO(LOADING), NULL, act_awake, leave_waiting},
    [UPDATING] = {"updating", TO(LOADING), NULL, act_nothing, NULL},
    [LOADING] = {"loading", TO(RECEIVING) | TO(COPYING_IN), enter_loading, act_compute, leave_loading},
    [RECEIVING] = {"receiving", TO(COPYING_IN), NULL, begin_waiting, NULL},
    [COPYING_IN] = {"copying in", TO(COMPUTING), enter_copying, act_work, leave_copying_in},
    [COMPUTING] = {"computing", TO(PACING) | TO(DELAYED) | TO(COMPUTED), enter_computing, act_compute, leave_computing},
    [PACING] = {"pacing", TO(DELAYED) | TO(COMPUTED), NULL, act_sleep, delay},
    [DELAYED] = {"delayed", TO(COMPUTED), NULL, act_sleep, leave_delayed},
    [COMPUTED] = {"computed", TO(COPYING_OUT) | TO(PUSHING) | TO(TAKEN), enter_computed, act_at_once, leave_computed},
    [COPYING_OUT] = {"copying out", TO(PUSHING), enter_copying, act_work, leave_copying_out},
    [PUSHING] = {"pushing", TO(TAKEN), enter_pushing, act_push, NULL},
    [TAKEN] = {"taken", 0, NULL, act_awake, leave_taken},
};

static int begin_iteration(Iteration *one) { return enter_stage(one, ORDERED); }
