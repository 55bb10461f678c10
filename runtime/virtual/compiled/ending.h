/* The end of an iteration: its gradient is told to the coordinator, to a loop that decides, or to the job's models. */

static PyObject *names_of_times, *name_grad_id, *name_factor; /* made once, with the types */

/* The fields of Timings, in the order of names_of_times. */
static void times_of(Iteration *one, double taken_s, double *all) {
    one->send_s = taken_s - one->since_s;
#define TIME(name) *all++ = one->name;
    WORK_TIMES(TIME)
#undef TIME
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
