/* The coordinator: an event to the strategy, and its answer carried out, if all of that is known here and lawful.

Else nothing of it is, and Python does it: see runtime/core/dialogue.py, executor.py and ledger.py. */

enum { GO_ON, PAUSE, FOREIGN, OVER, ANSWERED, RAISED, HELD, IDLE, BROKEN }; /* why a step ends; BROKEN: an exception */

/* ---- is an answer lawful? ---------------------------------------------------------------------------------------- */

static int is_whole(PyObject *value, int64_t *number) {
    if (!PyLong_CheckExact(value))
        return 0;
    int over;
    *number = PyLong_AsLongLongAndOverflow(value, &over);
    return !over;
}

static int may_compute(Loop *l, PyObject *command) {
    int64_t worker, samples, accum;
    if (!is_whole(field(command, compute_worker), &worker) || !is_whole(field(command, compute_samples), &samples) ||
        !is_whole(field(command, compute_accum), &accum) || field(command, compute_parts) == NULL)
        return 0;
    PyObject *parts = field(command, compute_parts);
    if (!PyTuple_CheckExact(parts) || PyTuple_GET_SIZE(parts) || field(command, compute_within) != Py_None || worker < 0 || worker >= l->workers)
        return 0;
    if (l->busy[worker] >= 0 || l->held[worker] || l->worker_mark[worker] == l->stamp)
        return 0;
    l->worker_mark[worker] = l->stamp;
    return samples >= 1 && accum >= 1 && accum <= samples;
}

/* Whether these gradients may be used; notes their places. */
static int may_use(Loop *l, PyObject *ids) {
    if (!PyTuple_CheckExact(ids) || !PyTuple_GET_SIZE(ids))
        return 0;
    Py_ssize_t count = PyTuple_GET_SIZE(ids);
    if (l->num_named + count > l->named_room) {
        int64_t *named = wider(l->named, 2 * (l->num_named + count), sizeof *named);
        if (!named)
            return -1;
        l->named = named;
        l->named_room = 2 * (l->num_named + count);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *id = PyTuple_GET_ITEM(ids, i), *grad;
        int64_t number, worker;
        if (!is_whole(id, &number) || !(grad = PyDict_GetItemWithError(l->grads, id)))
            return PyErr_Occurred() ? -1 : 0;
        if (!Py_IS_TYPE(grad, (PyTypeObject *)Grad_) || !is_whole(field(grad, grad_worker), &worker))
            return 0;
        int64_t place = find_unused(l, worker, number);
        if (place < 0 || l->works[place].mark == l->stamp)
            return 0;
        l->works[place].mark = l->stamp;
        l->named[l->num_named++] = place;
    }
    return 1;
}

static int may_apply(Loop *l, PyObject *command) {
    PyObject *grads = field(command, apply_grads), *weights = field(command, apply_weights);
    PyObject *children = field(command, apply_children);
    if (!PyTuple_CheckExact(weights) || !PyTuple_CheckExact(grads) || !PyFloat_CheckExact(field(command, apply_scale)))
        return 0;
    if (PyTuple_GET_SIZE(grads) != PyTuple_GET_SIZE(weights) || field(command, apply_measure) != Py_False)
        return 0;
    return PyTuple_CheckExact(children) && !PyTuple_GET_SIZE(children) ? may_use(l, grads) : 0;
}

/* Whether all commands are known here and lawful; negative: an exception. */
static int is_lawful(Loop *l, PyObject *const *commands, Py_ssize_t count) {
    l->stamp++;
    l->num_named = 0;
    int good = 1;
    for (Py_ssize_t i = 0; good > 0 && i < count; i++) {
        PyObject *one = commands[i], *type = (PyObject *)Py_TYPE(one);
        if (type == Compute_)
            good = may_compute(l, one);
        else if (type == Apply_)
            good = may_apply(l, one);
        else if (type == Drop_)
            good = field(one, drop_requeue) == Py_True ? may_use(l, field(one, drop_grads)) : 0;
        else if (type == Wake_)
            good = PyFloat_CheckExact(field(one, wake_at)) && PyUnicode_CheckExact(field(one, wake_tag));
        else
            good = 0;
    }
    return good;
}

/* ---- carry it out ------------------------------------------------------------------------------------------------ */

static int note_epoch(Loop *l) {
    PyObject *noted = PyObject_CallFunction(l->note_epoch, "dL", l->t, l->epochs_opened - 1);
    Py_XDECREF(noted);
    return noted ? 0 : -1;
}

/* VirtualPort.compute: what disturbs parts of a worker adds to its own delay. */
static int add_inside(Loop *l, int64_t worker, int64_t samples, int64_t accum, Work *work) {
    if (l->added == Py_None)
        return 0;
    PyObject *found = PyObject_CallFunction(l->added, "LLLddd", (long long)worker, (long long)samples,
                                            (long long)accum, l->t, work->delay_s, work->slowdown_frac);
    int good = found && PyArg_ParseTuple(found, "dd", &work->delay_s, &work->slowdown_frac);
    Py_XDECREF(found);
    return good ? 0 : -1;
}

/* Executor._begin: 1 if there was data, 0 if not. */
static int begin_compute(Loop *l, PyObject *command) {
    int64_t worker = 0, assigned = 0, accum = 0, place = new_work(l);
    long long opened = l->epochs_opened;
    if (place < 0)
        return -1;
    is_whole(field(command, compute_worker), &worker);
    is_whole(field(command, compute_samples), &assigned);
    is_whole(field(command, compute_accum), &accum);
    int64_t samples = take_samples(l, worker, assigned, &l->works[place].ranges);
    if (samples <= 0) {
        free_work(l, place);
        return samples < 0 ? -1 : 0;
    }
    if (l->epochs_opened > opened && note_epoch(l))
        return -1;
    Work *work = &l->works[place];
    if (look_up(l->disturb, PyList_GET_ITEM(l->names, worker), l->t, &work->delay_s, &work->slowdown_frac))
        return -1;
    if (add_inside(l, worker, samples, accum < samples ? accum : samples, work))
        return -1;
    PyObject *iteration = PyDict_GetItemWithError(l->iterations, l->numbers[worker]);
    work->id = l->next_grad_id++;
    work->worker = worker;
    work->iteration = iteration ? PyLong_AsLongLong(iteration) : 0;
    work->version = l->version;
    work->samples = samples;
    work->assigned_samples = assigned;
    work->accum = accum < samples ? accum : samples;
    l->busy[worker] = place;
    l->num_busy++;
    l->begun = 1;
    return begin_work(l, place, l->busy_until_s) ? -1 : 1;
}

static int compute(Loop *l, PyObject *command) {
    int begun = begin_compute(l, command);
    if (begun)
        return begun < 0 ? -1 : 0;
    int64_t worker = 0;
    is_whole(field(command, compute_worker), &worker);
    l->held[worker] = Py_NewRef(command);
    l->num_held++;
    PyObject *noted = PyObject_CallFunction(l->note_held, "dO", l->t, l->numbers[worker]);
    Py_XDECREF(noted);
    return noted ? 0 : -1;
}

/* Executor.feed_held. */
static int feed_held(Loop *l) {
    for (int64_t worker = 0; l->num_held && worker < l->workers; worker++) {
        if (!l->held[worker])
            continue;
        int begun = begin_compute(l, l->held[worker]);
        if (begun < 0)
            return -1;
        if (begun) {
            Py_CLEAR(l->held[worker]);
            l->num_held--;
        }
    }
    return 0;
}

/* A row of a gradient whose outcome is known: ColumnRecorder._decided. */
static int decide(Loop *l, int64_t place, int64_t applied_version, double applied_s) {
    Work *work = &l->works[place];
    if (!l->keeps_rows) {
        take_unused(l, place);
        free_work(l, place);
        return 0;
    }
    long long row = l->rows++;
#define VALUE(name, value) value,
    int64_t integers[NUM_ROW_INTEGERS] = {ROW_INTEGERS(VALUE)};
#undef VALUE
#define VALUE(name) work->name,
    double floats[NUM_ROW_FLOATS] = {work->t, WORK_TIMES(VALUE) applied_s};
#undef VALUE
    for (int i = 0; i < NUM_ROW_INTEGERS; i++)
        l->row_integers[i * ROOM + row] = integers[i];
    for (int i = 0; i < NUM_ROW_FLOATS; i++)
        l->row_floats[i * ROOM + row] = floats[i];
    take_unused(l, place);
    free_work(l, place);
    if (l->rows < ROOM)
        return 0;
    PyObject *written = PyObject_CallNoArgs(l->write_rows);
    Py_XDECREF(written);
    return written ? 0 : -1;
}

/* GradientLedger.use: take a gradient out of the books. */
static int use(Loop *l, PyObject *id) {
    PyObject *grad = Py_NewRef(PyDict_GetItemWithError(l->grads, id));
    PyObject *remembered = PyObject_CallOneArg(l->remember, grad);
    Py_DECREF(grad);
    Py_XDECREF(remembered);
    return remembered ? PyDict_DelItem(l->grads, id) : -1;
}

/* Executor._epochs_moved, and what may begin then. */
static int epochs_moved(Loop *l, long long opened) {
    if (is_finished(l)) {
        PyObject *ended = PyObject_CallFunction(l->finish, "d", l->t);
        Py_XDECREF(ended);
        l->over = 1;
        return ended ? 0 : -1;
    }
    if (l->epochs_opened > opened && note_epoch(l))
        return -1;
    return feed_held(l);
}

static int apply(Loop *l, PyObject *command, const int64_t *places) {
    PyObject *ids = field(command, apply_grads);
    Py_ssize_t count = PyTuple_GET_SIZE(ids);
    int64_t samples = 0, completed = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        samples += l->works[places[i]].samples;
        if (use(l, PyTuple_GET_ITEM(ids, i)))
            return -1;
    }
    long long opened = l->epochs_opened;
    l->version++;
    if (l->learn != Py_None) {
        PyObject *learnt = PyObject_CallFunction(l->learn, "LOL", (long long)samples, field(command, apply_scale),
                                                 l->samples_applied);
        if (!learnt)
            return -1;
        Py_DECREF(learnt);
    }
    if (update(l, l->busy_until_s, count))
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        int more = apply_samples(l, &l->works[places[i]].ranges);
        if (more < 0 || decide(l, places[i], l->version, l->t))
            return -1;
        completed += more;
    }
    return completed ? epochs_moved(l, opened) : 0;
}

static int drop(Loop *l, PyObject *command, const int64_t *places) {
    PyObject *ids = field(command, drop_grads);
    Py_ssize_t count = PyTuple_GET_SIZE(ids);
    for (Py_ssize_t i = 0; i < count; i++)
        if (use(l, PyTuple_GET_ITEM(ids, i)))
            return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        Work *work = &l->works[places[i]];
        if (return_samples(l, &work->ranges, work->worker) || decide(l, places[i], 0, NAN))
            return -1;
    }
    return feed_held(l);
}

static int wake(Loop *l, PyObject *command) {
    double at_s = PyFloat_AS_DOUBLE(field(command, wake_at));
    l->timers++;
    return happen_at(l, at_s, TIMER, WOKE, 0, Py_NewRef(field(command, wake_tag)));
}

static int carry_out(Loop *l, PyObject *const *commands, Py_ssize_t count) {
    int64_t *places = l->named;
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && !l->over && i < count; i++) {
        PyObject *one = commands[i], *type = (PyObject *)Py_TYPE(one);
        if (type == Compute_) {
            failed = compute(l, one);
        } else if (type == Apply_) {
            failed = apply(l, one, places);
            places += PyTuple_GET_SIZE(field(one, apply_grads));
        } else if (type == Drop_) {
            failed = drop(l, one, places);
            places += PyTuple_GET_SIZE(field(one, drop_grads));
        } else {
            failed = wake(l, one);
        }
    }
    return failed;
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

/* Pass an event to the strategy: Dialogue._ask. Takes over the reference to it. */
static int ask(Loop *l, PyObject *event, int is_line) {
    if (!event)
        return BROKEN;
    l->busy_until_s = l->now + l->decision_s;
    l->events++;
    PyObject *answer = PyObject_CallOneArg(l->handle, event);
    if (!answer) {
        Py_XSETREF(l->event, event);
        return RAISED;
    }
    int lawful = 0;
    if (PyList_CheckExact(answer) || PyTuple_CheckExact(answer))
        lawful = is_lawful(l, PySequence_Fast_ITEMS(answer), PySequence_Fast_GET_SIZE(answer));
    if (lawful == 0) {
        Py_XSETREF(l->event, event);
        Py_XSETREF(l->answer, answer);
        return ANSWERED;
    }
    int failed = lawful < 0 || carry_out(l, PySequence_Fast_ITEMS(answer), PySequence_Fast_GET_SIZE(answer));
    if (!failed && (l->keeps_lines || (is_line && l->keeps_rows))) {
        PyObject *written = PyObject_CallFunction(l->write_line, "dOOL", l->t, event, answer, l->version);
        failed = !written;
        Py_XDECREF(written);
    }
    Py_DECREF(event);
    Py_DECREF(answer);
    if (failed)
        return BROKEN;
    if (l->over)
        return OVER;
    if (!l->num_busy && l->num_held)
        return HELD;
    return !l->num_busy && l->declares_stuck && !l->timers ? IDLE : GO_ON;
}

/* Coordinator._gradient_arrived. */
static int receive_gradient(Loop *l, int64_t place) {
    Work *work = &l->works[place];
    int64_t worker = work->worker;
    l->t = l->now > l->t ? l->now : l->t;
    work->t = l->t;
    l->busy[worker] = -1;
    l->num_busy--;
    PyObject *grad = make_grad(l, work), *id = PyLong_FromLongLong(work->id);
    PyObject *iterations = PyLong_FromLongLong(work->iteration + 1);
    int failed = !grad || !id || PyDict_SetItem(l->grads, id, grad) || !iterations ||
                 PyDict_SetItem(l->iterations, l->numbers[worker], iterations);
    Py_XDECREF(id);
    Py_XDECREF(iterations);
    PyObject *values[] = {PyFloat_FromDouble(l->t), grad, make_timings(l, work)};
    work->event = make(Arrived_, values, ARRIVED_NAMES);
    if (failed || !work->event)
        return BROKEN;
    keep_unused(l, place);
    PyObject *noted = PyObject_CallOneArg(PyList_GET_ITEM(l->histories, worker), work->event);
    if (!noted)
        return BROKEN;
    Py_DECREF(noted);
    return ask(l, Py_NewRef(work->event), 0);
}

static int receive(Loop *l, int kind, int64_t about, PyObject *tag) {
    if (kind == ARRIVED)
        return receive_gradient(l, about);
    l->t = l->now > l->t ? l->now : l->t;
    l->timers -= l->timers > 0;
    PyObject *values[] = {PyFloat_FromDouble(l->t), tag};
    return ask(l, make(Woke_, values, WOKE_NAMES), 1);
}

/* VirtualSession._serve, but for what follows a decision that Python ends. */
static int serve_on(Loop *l) {
    l->serving = l->inbox.count > 0;
    return l->serving ? happen_at(l, l->busy_until_s, MESSAGE, SERVE, 0, NULL) : 0;
}

static int serve(Loop *l) {
    Entry first = pop_waiting(&l->inbox);
    int why = receive(l, first.kind, first.about, first.given);
    if (why == GO_ON)
        return serve_on(l) ? BROKEN : GO_ON;
    l->serves = 1;
    return why;
}

/* VirtualSession._drive. */
static int drive(Loop *l, const Entry *entry) {
    if (!l->inbox.count && l->now >= l->busy_until_s)
        return receive(l, entry->kind, entry->about, entry->given);
    if (wait_for_coordinator(l, entry->kind, entry->about, entry->given))
        return BROKEN;
    if (l->serving)
        return GO_ON;
    l->serving = 1;
    return happen_at(l, l->busy_until_s, MESSAGE, SERVE, 0, NULL) ? BROKEN : GO_ON;
}

static int advance(Loop *l) {
    int why = GO_ON;
    while (why == GO_ON) {
        if (l->events >= l->stop)
            return PAUSE;
        Entry *first = l->heap;
        if (l->hosts) {
            double before_s = l->count ? first->when_s : INFINITY;
            int found = l->hosts->run(l->hosts->chain, before_s, l->count ? first->priority : 0,
                                      l->count ? first->sequence : 0);
            if (found != NOTHING_BEFORE || !l->count) {
                if (found == TOLD)
                    continue;
                return found < 0 ? BROKEN : FOREIGN;
            }
            l->hosts->act(l->hosts->chain, first->when_s);
        } else {
            Entry foreign = {.when_s = l->foreign_s, .priority = l->foreign_priority, .sequence = l->foreign_sequence};
            if (!l->count || is_before(&foreign, first))
                return FOREIGN;
        }
        Entry entry = pop_entry(l);
        l->now = entry.when_s;
        if (entry.kind == PUSHED)
            why = push(l, entry.about) ? BROKEN : GO_ON;
        else
            why = entry.kind == SERVE ? serve(l) : drive(l, &entry);
    }
    return why;
}
