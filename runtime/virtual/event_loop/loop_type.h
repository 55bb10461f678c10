/* The Python type: what enters the loop, and all of it again when Python goes on. */

/* All of a kind as a list; a value that could not be made leaves none. */
static int append(PyObject *list, PyObject *value) {
    int failed = !value || PyList_Append(list, value);
    Py_XDECREF(value);
    return failed;
}

static void forget_data(Loop *l) {
    l->requeued.count = l->requeued.first = 0;
    for (int64_t worker = 0; worker < l->workers; worker++)
        l->local[worker].count = l->local[worker].first = 0;
    while (l->num_open)
        forget_epoch(l, l->num_open - 1);
}

/* ---- samples ------------------------------------------------------------------------------------------------------ */

static int read_range(PyObject *from, Range *range) {
    long long epoch, shard, start, stop, worker;
    if (!PyArg_ParseTuple(from, "LLLLL", &epoch, &shard, &start, &stop, &worker))
        return -1;
    *range = (Range){epoch, shard, start, stop, worker};
    return 0;
}

/* Ranges are tuples, see Range; appended to a queue. */
static int read_ranges(PyObject *list, Queue *queue) {
    Range range;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (read_range(PyList_GET_ITEM(list, i), &range) || push_back(queue, range))
            return -1;
    return 0;
}

static PyObject *shown_ranges(const Queue *queue) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < queue->count; i++) {
        const Range *one = range_at(queue, i);
        if (append(list, Py_BuildValue("LLLLL", (long long)one->epoch, (long long)one->shard, (long long)one->start,
                                       (long long)one->stop, (long long)one->worker)))
            Py_CLEAR(list);
    }
    return list;
}

/* The samples of a worker's own queue; -1: of those that came back. */
static PyObject *loop_add_samples(Loop *l, PyObject *args) {
    long long worker;
    PyObject *ranges;
    if (!PyArg_ParseTuple(args, "LO!", &worker, &PyList_Type, &ranges))
        return NULL;
    if (worker < -1 || worker >= l->workers) {
        PyErr_SetString(PyExc_ValueError, "samples of nobody");
        return NULL;
    }
    if (read_ranges(ranges, worker < 0 ? &l->requeued : &l->local[worker]))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *loop_add_epoch(Loop *l, PyObject *args) {
    long long number, next_shard, num_done;
    PyObject *books;
    if (!PyArg_ParseTuple(args, "LLLO!", &number, &next_shard, &num_done, &PyTuple_Type, &books) ||
        add_epoch(l, number, next_shard, num_done, books))
        return NULL;
    Py_RETURN_NONE;
}

/* (workers' own queues, what came back, open epochs); nothing of it is here any more. */
static PyObject *loop_leave_data(Loop *l, PyObject *unused) {
    PyObject *local = PyList_New(0), *requeued = shown_ranges(&l->requeued), *epochs = PyList_New(0);
    int failed = !local || !requeued || !epochs;
    for (int64_t worker = 0; !failed && worker < l->workers; worker++)
        failed = append(local, shown_ranges(&l->local[worker]));
    for (int i = 0; !failed && i < l->num_open; i++)
        failed = append(epochs, Py_BuildValue("LLLO", (long long)l->open[i].number, (long long)l->open[i].next_shard,
                                              (long long)l->open[i].num_done, l->open[i].epoch));
    PyObject *all = failed ? NULL : PyTuple_Pack(3, local, requeued, epochs);
    Py_XDECREF(local);
    Py_XDECREF(requeued);
    Py_XDECREF(epochs);
    if (all)
        forget_data(l);
    return all;
}

/* ---- work --------------------------------------------------------------------------------------------------------- */

/* A number that Python gives by its name: 0 if it gives none, or None; counts those that there are. */
static int take_number(PyObject *fields, const char *name, PyObject **found, Py_ssize_t *taken) {
    *found = PyDict_GetItemString(fields, name);
    *taken += *found != NULL;
    if (*found == Py_None)
        *found = NULL;
    return *found != NULL;
}

static int read_work(PyObject *fields, Work *work) {
    PyObject *found;
    Py_ssize_t taken = 0;
#define TAKE(name) work->name = take_number(fields, #name, &found, &taken) ? PyLong_AsLongLong(found) : 0;
    WORK_INTEGERS(TAKE)
#undef TAKE
#define TAKE(name) work->name = take_number(fields, #name, &found, &taken) ? PyFloat_AsDouble(found) : 0.0;
    WORK_SECONDS(TAKE)
#undef TAKE
    if (!PyErr_Occurred() && taken != PyDict_GET_SIZE(fields))
        PyErr_Format(PyExc_ValueError, "numbers that a work does not have: %R", fields);
    return PyErr_Occurred() ? -1 : 0;
}

/* (numbers by name, Arrived or None, ranges) */
static PyObject *loop_add_work(Loop *l, PyObject *args) {
    Work work = {0};
    PyObject *fields, *event, *ranges;
    if (!PyArg_ParseTuple(args, "O!OO!", &PyDict_Type, &fields, &event, &PyList_Type, &ranges) ||
        read_work(fields, &work))
        return NULL;
    if (work.worker < 0 || work.worker >= l->workers || (event == Py_None && l->busy[work.worker] >= 0)) {
        PyErr_SetString(PyExc_ValueError, "work of nobody, or of somebody who is busy");
        return NULL;
    }
    int64_t place = new_work(l);
    if (place < 0)
        return NULL;
    work.next = -1;
    work.ranges = l->works[place].ranges;
    l->works[place] = work;
    if (read_ranges(ranges, &l->works[place].ranges)) {
        free_work(l, place);
        return NULL;
    }
    if (event == Py_None) {
        l->busy[work.worker] = place;
        l->num_busy++;
    } else {
        l->works[place].event = Py_NewRef(event);
        keep_unused(l, place);
    }
    return PyLong_FromLongLong(place);
}

static int is_place(const Loop *l, int kind, long long about) {
    int good = kind == SERVE || kind == WOKE ||
               ((kind == PUSHED || kind == ARRIVED) && about >= 0 && about < l->num_works && l->works[about].id >= 0);
    if (!good)
        PyErr_SetString(PyExc_ValueError, "no such work");
    return good;
}

static PyObject *loop_add_entry(Loop *l, PyObject *args) {
    double when_s;
    int priority, kind;
    long long sequence, about;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "diLiLO", &when_s, &priority, &sequence, &kind, &about, &given) ||
        !is_place(l, kind, about))
        return NULL;
    Entry entry = {when_s, sequence, about, priority, kind, given == Py_None ? NULL : given};
    if (put_entry(l, entry))
        return NULL;
    Py_XINCREF(entry.given);
    Py_RETURN_NONE;
}

static PyObject *loop_add_waiting(Loop *l, PyObject *args) {
    int kind;
    long long about;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "iLO", &kind, &about, &given) || !is_place(l, kind, about))
        return NULL;
    if (wait_for_coordinator(l, kind, about, given == Py_None ? NULL : given))
        return NULL;
    if (given != Py_None)
        Py_INCREF(given);
    Py_RETURN_NONE;
}

static PyObject *loop_hold(Loop *l, PyObject *args) {
    long long worker;
    PyObject *command;
    if (!PyArg_ParseTuple(args, "LO", &worker, &command))
        return NULL;
    if (worker < 0 || worker >= l->workers || l->held[worker] || !Py_IS_TYPE(command, (PyTypeObject *)Compute_)) {
        PyErr_SetString(PyExc_ValueError, "nothing that a worker could be held with");
        return NULL;
    }
    l->held[worker] = Py_NewRef(command);
    l->num_held++;
    Py_RETURN_NONE;
}

static PyObject *loop_advance(Loop *l, PyObject *stop) {
#define IS_SET(name) l->name &&
    if (!(NEEDED(IS_SET) 1)) {
        PyErr_SetString(PyExc_ValueError, "a loop without all that it needs");
        return NULL;
    }
    l->stop = PyLong_AsLongLong(stop);
    if (PyErr_Occurred())
        return NULL;
    l->events = 0;
    int why = advance(l);
    if (l->hosts) {
        l->sequence = *l->counter;
        l->now = *l->hosts->now;
    }
    return why == RAISED || why == BROKEN ? NULL : PyLong_FromLong(why);
}

static int show_number(PyObject *fields, const char *name, PyObject *value) {
    int failed = !value || PyDict_SetItemString(fields, name, value);
    Py_XDECREF(value);
    return failed;
}

/* As :c:func:`loop_add_work` takes it. */
static PyObject *shown_work(const Work *w) {
    PyObject *fields = PyDict_New();
    int failed = !fields;
#define SHOW(name) failed = failed || show_number(fields, #name, PyLong_FromLongLong(w->name));
    WORK_INTEGERS(SHOW)
#undef SHOW
#define SHOW(name) failed = failed || show_number(fields, #name, PyFloat_FromDouble(w->name));
    WORK_SECONDS(SHOW)
#undef SHOW
    if (failed) {
        Py_XDECREF(fields);
        return NULL;
    }
    return Py_BuildValue("NON", fields, w->event ? w->event : Py_None, shown_ranges(&w->ranges));
}

static void forget(Loop *l) {
    for (Py_ssize_t i = 0; i < l->count; i++)
        Py_XDECREF(l->heap[i].given);
    l->count = 0;
    for (int64_t i = 0; i < l->inbox_count; i++)
        Py_XDECREF(l->inbox[(l->inbox_first + i) % l->inbox_room].given);
    l->inbox_count = l->inbox_first = 0;
    for (int64_t place = 0; place < l->num_works; place++)
        if (l->works[place].id >= 0)
            free_work(l, place);
    for (int64_t worker = 0; worker < l->workers; worker++) {
        l->busy[worker] = l->unused[worker] = -1;
        Py_CLEAR(l->held[worker]);
    }
    l->num_busy = l->num_held = 0;
}

/* (works by place, entries, what waits for the coordinator, held Computes); nothing of it is here any more. */
static PyObject *loop_leave(Loop *l, PyObject *unused) {
    PyObject *works = PyDict_New(), *entries = PyList_New(0), *waiting = PyList_New(0), *held = PyList_New(0);
    int failed = !works || !entries || !waiting || !held;
    for (int64_t place = 0; !failed && place < l->num_works; place++) {
        if (l->works[place].id < 0)
            continue;
        PyObject *key = PyLong_FromLongLong(place), *value = shown_work(&l->works[place]);
        failed = !key || !value || PyDict_SetItem(works, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    for (Py_ssize_t i = 0; !failed && i < l->count; i++) {
        Entry *e = &l->heap[i];
        failed = append(entries, Py_BuildValue("diLiLO", e->when_s, e->priority, (long long)e->sequence, e->kind,
                                               (long long)e->about, e->given ? e->given : Py_None));
    }
    for (int64_t i = 0; !failed && i < l->inbox_count; i++) {
        Waiting *one = &l->inbox[(l->inbox_first + i) % l->inbox_room];
        failed = append(waiting, Py_BuildValue("iLO", one->kind, (long long)one->about,
                                               one->given ? one->given : Py_None));
    }
    for (int64_t worker = 0; !failed && worker < l->workers; worker++)
        if (l->held[worker])
            failed = append(held, Py_BuildValue("LO", (long long)worker, l->held[worker]));
    PyObject *all = failed ? NULL : PyTuple_Pack(4, works, entries, waiting, held);
    Py_XDECREF(works);
    Py_XDECREF(entries);
    Py_XDECREF(waiting);
    Py_XDECREF(held);
    if (all)
        forget(l);
    return all;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void *zeros(PyObject **bytes, long long length, size_t size) {
    *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)((size_t)length * size));
    return *bytes == NULL ? NULL : memset(PyByteArray_AS_STRING(*bytes), 0, (size_t)length * size);
}

static int allocate(Loop *l) {
    long long workers = l->workers, servers = l->servers;
#define ALLOCATE(type, name, length) \
    if (!(l->name = zeros(&l->name##_bytes, length, sizeof(type)))) return -1;
    ARRAYS(ALLOCATE)
#undef ALLOCATE
    l->numbers = PyMem_Calloc((size_t)workers, sizeof *l->numbers);
    l->held = PyMem_Calloc((size_t)workers, sizeof *l->held);
    l->busy = PyMem_Calloc((size_t)workers, sizeof *l->busy);
    l->unused = PyMem_Calloc((size_t)workers, sizeof *l->unused);
    l->worker_mark = PyMem_Calloc((size_t)workers, sizeof *l->worker_mark);
    l->local = PyMem_Calloc((size_t)workers, sizeof *l->local);
    if (!l->numbers || !l->held || !l->busy || !l->unused || !l->worker_mark || !l->local) {
        PyErr_NoMemory();
        return -1;
    }
    for (long long worker = 0; worker < workers; worker++) {
        if (!(l->numbers[worker] = PyLong_FromLongLong(worker)))
            return -1;
        l->busy[worker] = l->unused[worker] = -1;
    }
    return 0;
}

static PyObject *loop_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"workers", "servers", NULL};
    long long workers, servers;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LL", words, &workers, &servers))
        return NULL;
    if (workers < 1 || servers < 0) {
        PyErr_SetString(PyExc_ValueError, "a loop needs workers");
        return NULL;
    }
    Loop *l = (Loop *)type->tp_alloc(type, 0);
    if (!l)
        return NULL;
    l->workers = workers;
    l->servers = servers;
    l->free_work = l->shuffled_epoch = -1;
    l->foreign_s = INFINITY;
    l->counter = &l->sequence;
    if (allocate(l))
        Py_CLEAR(l);
    return (PyObject *)l;
}

static int loop_traverse(Loop *l, visitproc visit, void *arg) {
#define VISIT(name) Py_VISIT(l->name);
    OBJECTS(VISIT)
#undef VISIT
    for (int64_t place = 0; place < l->num_works; place++)
        Py_VISIT(l->works[place].event);
    return 0;
}

static int loop_clear(Loop *l) {
#define CLEAR(name) Py_CLEAR(l->name);
    OBJECTS(CLEAR)
#undef CLEAR
    return 0;
}

static void loop_dealloc(Loop *l) {
    PyObject_GC_UnTrack(l);
    if (l->local) {
        forget(l);
        forget_data(l);
        for (int64_t place = 0; place < l->num_works; place++)
            PyMem_Free(l->works[place].ranges.items);
        for (long long worker = 0; worker < l->workers; worker++)
            PyMem_Free(l->local[worker].items);
        PyMem_Free(l->requeued.items);
    }
    loop_clear(l);
    Py_CLEAR(l->hosts_held);
#define RELEASE(type, name, length) Py_XDECREF(l->name##_bytes);
    ARRAYS(RELEASE)
#undef RELEASE
    for (long long worker = 0; l->numbers && worker < l->workers; worker++)
        Py_XDECREF(l->numbers[worker]);
    void *arrays[] = {l->numbers, l->held, l->busy, l->unused, l->worker_mark, l->heap, l->works, l->inbox, l->named,
                      l->local};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        PyMem_Free(arrays[i]);
    Py_TYPE(l)->tp_free(l);
}

#define SEEN(type, name, length) {#name, T_OBJECT_EX, offsetof(Loop, name##_bytes), READONLY, NULL},
#define OBJECT(name) {#name, T_OBJECT, offsetof(Loop, name), 0, NULL},
#define SECONDS(name) {#name, T_DOUBLE, offsetof(Loop, name), 0, NULL}
#define NUMBER(name) {#name, T_LONGLONG, offsetof(Loop, name), 0, NULL}
#define FLAG(name) {#name, T_BOOL, offsetof(Loop, name), 0, NULL}

static PyMemberDef loop_members[] = {
    ARRAYS(SEEN) OBJECTS(OBJECT)
    SECONDS(now), SECONDS(t), SECONDS(busy_until_s), SECONDS(idle_s), SECONDS(look_s), SECONDS(look_servers_s),
    SECONDS(decision_s), SECONDS(control_s), SECONDS(overshoot_s), SECONDS(transfer_s), SECONDS(update_base_s),
    SECONDS(update_per_byte_s), SECONDS(foreign_s), SECONDS(ring_s), SECONDS(step_s), SECONDS(summed_s),
    FLAG(keeps_rows), FLAG(keeps_lines), FLAG(are_replicas), NUMBER(version), NUMBER(next_grad), NUMBER(sequence),
    NUMBER(foreign_priority), NUMBER(foreign_sequence), NUMBER(rows), NUMBER(timers), NUMBER(events),
    NUMBER(policy), NUMBER(epochs), NUMBER(epochs_opened), NUMBER(epochs_done), NUMBER(samples_applied),
    NUMBER(shards_done), NUMBER(num_shards), NUMBER(shard_samples), NUMBER(num_samples), FLAG(overlap),
    FLAG(shares_memory), FLAG(jitters), FLAG(learns), FLAG(declares_stuck), FLAG(serving), FLAG(over), FLAG(serves),
    FLAG(begun), {NULL}};

/* Work is done on machines from now on; returns the capsule by which they tell what has arrived. */
static PyObject *loop_join(Loop *l, PyObject *capsule) {
    Hosts *hosts = PyCapsule_GetPointer(capsule, HOSTS_CAPSULE);
    if (!hosts)
        return NULL;
    Py_XSETREF(l->hosts_held, Py_NewRef(capsule));
    l->hosts = hosts;
    l->counter = hosts->sequence;
    l->decisions = (Decisions){l, arrive};
    return PyCapsule_New(&l->decisions, DECISIONS_CAPSULE, NULL);
}

static PyMethodDef loop_methods[] = {
    {"join", (PyCFunction)loop_join, METH_O, "Work is done on machines, whose capsule is given."},
    {"add_work", (PyCFunction)loop_add_work, METH_VARARGS, "A Compute in progress, or a gradient with its event."},
    {"add_entry", (PyCFunction)loop_add_entry, METH_VARARGS, "Something that happens."},
    {"add_waiting", (PyCFunction)loop_add_waiting, METH_VARARGS, "Something that waits for the coordinator."},
    {"add_samples", (PyCFunction)loop_add_samples, METH_VARARGS, "Samples of a queue."},
    {"add_epoch", (PyCFunction)loop_add_epoch, METH_VARARGS, "An open epoch."},
    {"leave_data", (PyCFunction)loop_leave_data, METH_NOARGS, "The data service, as it is now."},
    {"hold", (PyCFunction)loop_hold, METH_VARARGS, "A Compute that waits for data."},
    {"advance", (PyCFunction)loop_advance, METH_O, "Go on for so many decisions, or until Python has to do something."},
    {"leave", (PyCFunction)loop_leave, METH_NOARGS, "All that has entered, as it is now."},
    {NULL}};

static PyTypeObject LoopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.event_loop._events.Loop",
    .tp_basicsize = sizeof(Loop),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The events of a job whose members do not change.",
    .tp_new = loop_new,
    .tp_traverse = (traverseproc)loop_traverse,
    .tp_clear = (inquiry)loop_clear,
    .tp_dealloc = (destructor)loop_dealloc,
    .tp_methods = loop_methods,
    .tp_members = loop_members,
};
