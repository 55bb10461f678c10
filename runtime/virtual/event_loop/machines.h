/* How long things take: the twin of Servers and Workers (runtime/virtual/tasks/), operation by operation. */

/* One update of all replicas: Replicas.update. */
static int sum_up(Loop *l, double sent_s) {
    double reached_s = sent_s + l->control_s;
    l->summed_s = (l->idle_s > reached_s ? l->idle_s : reached_s) + l->ring_s;
    l->idle_s = l->summed_s + l->step_s;
    return 0;
}

/* One update on all servers, ordered at `sent_s`: Servers.update. */
static int update(Loop *l, double sent_s, int64_t num_grads) {
    if (l->are_replicas)
        return sum_up(l, sent_s);
    if (l->hosts)
        return l->hosts->update(l->hosts->chain, sent_s, num_grads, l->disturb);
    double reached_s = sent_s + l->control_s, last_s = -INFINITY;
    for (int64_t server = 0; server < l->servers; server++) {
        double num_bytes = PyLong_AsDouble(PyList_GET_ITEM(l->num_bytes, server)), delay_s, slowdown_frac;
        if (look_up(l->disturb, PyList_GET_ITEM(l->server_names, server), sent_s, &delay_s, &slowdown_frac))
            return -1;
        double busy_s = l->update_base_s + l->update_per_byte_s * num_bytes * (double)num_grads;
        double injected_s = slept_s(delay_s + slowdown_frac * busy_s, l->sleep_overshoot_s);
        double begun_s = PyFloat_AsDouble(PyList_GET_ITEM(l->free_s, server));
        double free_s = (begun_s > reached_s ? begun_s : reached_s) + busy_s + injected_s;
        if (PyErr_Occurred() || PyList_SetItem(l->free_s, server, PyFloat_FromDouble(free_s)) ||
            was_busy(PyList_GET_ITEM(l->reported, server), busy_s + injected_s, injected_s))
            return -1;
        last_s = free_s > last_s ? free_s : last_s;
    }
    l->idle_s = last_s;
    return 0;
}

/* What a worker needs for a batch, by the models: Workers._pace. */
static const Pace *pace_of(Loop *l, int64_t worker, int64_t samples, int64_t accum) {
    Pace *pace = &l->paces[worker];
    if (pace->samples == samples && pace->accum == accum)
        return pace;
    PyObject *found = PyObject_CallFunction(l->pace, "LLL", (long long)worker, (long long)samples, (long long)accum);
    Pace made = {samples, accum, 0.0, 0.0, 0.0};
    int good = found && PyArg_ParseTuple(found, "ddd", &made.data_s, &made.real_s, &made.paced_s);
    Py_XDECREF(found);
    if (!good)
        return NULL;
    *pace = made;
    return pace;
}

/* The next factor of a worker's jitter. */
static int draw_factor(Loop *l, int64_t worker, double *factor) {
    *factor = 1.0;
    if (l->factors == Py_None)
        return 0;
    PyObject *found = PyObject_CallNoArgs(PyList_GET_ITEM(l->factors, worker));
    *factor = found ? PyFloat_AsDouble(found) : 0.0;
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* An iteration whose order leaves the coordinator at `sent_s`: Workers.begin to Workers._pulled. */
static int begin_work(Loop *l, int64_t place, double sent_s) {
    Work *work = &l->works[place];
    if (l->hosts)
        return l->hosts->begin(l->hosts->chain, place, work->id, l->numbers[work->worker], work->samples, work->accum,
                               work->delay_s, work->slowdown_frac, sent_s);
    const Pace *pace = pace_of(l, work->worker, work->samples, work->accum);
    PyObject *idle = PyDict_GetItemWithError(l->idle_since_s, l->numbers[work->worker]);
    double factor;
    if (!pace || !idle || draw_factor(l, work->worker, &factor))
        return -1;
    double reached_s = sent_s + l->control_s, waited_s = reached_s - PyFloat_AsDouble(idle);
    double loaded_s = reached_s + pace->data_s;
    double delivered_s = l->idle_s > reached_s ? l->idle_s : reached_s, at_s = delivered_s + l->transfer_s;
    double recv_s = at_s - (loaded_s > delivered_s ? loaded_s : delivered_s);
    if (l->are_replicas) { /* a worker makes the update itself before it loads its batch */
        at_s = delivered_s + pace->data_s;
        recv_s = 0.0;
    } else if (loaded_s > at_s) {
        at_s = loaded_s;
    }
    double own_s, overrun_s = 0.0;
    if (pace->paced_s < 0) {
        own_s = pace->real_s * factor;
    } else if (pace->real_s > pace->paced_s) {
        own_s = pace->real_s * factor;
        overrun_s = own_s - pace->paced_s > 0.0 ? own_s - pace->paced_s : 0.0;
    } else {
        own_s = slept_s(pace->paced_s * factor, l->sleep_overshoot_s);
    }
    work->wait_s = waited_s > 0.0 ? waited_s : 0.0;
    work->data_s = pace->data_s;
    work->loaded_s = loaded_s;
    work->recv_s = recv_s > 0.0 ? recv_s : 0.0;
    work->pull_s = at_s - loaded_s;
    work->overrun_s = overrun_s;
    work->injected_s = slept_s(work->delay_s + work->slowdown_frac * own_s, l->sleep_overshoot_s);
    work->compute_s = own_s + work->injected_s;
    work->since_s = at_s + work->compute_s;
    return happen_at(l, work->since_s + l->transfer_s, MACHINE, PUSHED, place, NULL);
}

/* The servers take a gradient: Workers._pushed to VirtualSession._arrived. */
static int push(Loop *l, int64_t place) {
    Work *work = &l->works[place];
    double taken_s = l->shares_memory || l->now >= l->idle_s ? l->now : l->idle_s;
    work->send_s = taken_s - work->since_s;
    PyObject *idle = PyFloat_FromDouble(taken_s);
    int failed = !idle || PyDict_SetItem(l->idle_since_s, l->numbers[work->worker], idle);
    Py_XDECREF(idle);
    return failed ? -1 : happen_at(l, taken_s + l->control_s, MESSAGE, ARRIVED, place, NULL);
}

/* Machines have a gradient: HostWorkers._end to VirtualSession._arrived. */
static int arrive(void *loop, int64_t place, double when_s, const double *times) {
    Loop *l = loop;
    if (place < 0 || place >= l->num_works || l->works[place].id < 0) {
        PyErr_SetString(PyExc_ValueError, "a gradient of no work");
        return -1;
    }
    Work *work = &l->works[place];
#define TAKE(name) work->name = *times++;
    WORK_TIMES(TAKE)
#undef TAKE
    l->now = *l->hosts->now;
    return happen_at(l, when_s, MESSAGE, ARRIVED, place, NULL);
}
