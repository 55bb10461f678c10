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

/* Ranges are tuples, see Range; appended to a queue. */
static int read_ranges(PyObject *list, Queue *queue) {
    long long epoch, shard, start, stop, worker;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "LLLLL", &epoch, &shard, &start, &stop, &worker) ||
            push_back(queue, (Range){epoch, shard, start, stop, worker}))
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
    long long number;
    PyObject *books;
    if (!PyArg_ParseTuple(args, "LO!", &number, &PyTuple_Type, &books) || add_epoch(l, number, books))
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

#define SHOWN(type, name, of) {#name, type, offsetof(of, name), 0, NULL},
#define WORK_NUMBER(name) SHOWN(T_LONGLONG, name, Work)
#define WORK_SECOND(name) SHOWN(T_DOUBLE, name, Work)

static PyMemberDef work_fields[] = {WORK_INTEGERS(WORK_NUMBER) WORK_SECONDS(WORK_SECOND){NULL}};

/* What is not given is 0. */
static int read_work(PyObject *fields, Work *work) {
    Py_ssize_t taken = 0;
    for (PyMemberDef *one = work_fields; one->name; one++) {
        PyObject *found = PyDict_GetItemString(fields, one->name);
        if (found && PyMember_SetOne((char *)work, one, found))
            return -1;
        taken += found != NULL;
    }
    if (taken != PyDict_GET_SIZE(fields))
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
    if (push_entry(l, entry))
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

/* As loop_add_work takes it. */
static PyObject *shown_work(const Work *work) {
    PyObject *fields = PyDict_New();
    int failed = !fields;
    for (PyMemberDef *one = work_fields; !failed && one->name; one++) {
        PyObject *value = PyMember_GetOne((const char *)work, one);
        failed = !value || PyDict_SetItemString(fields, one->name, value);
        Py_XDECREF(value);
    }
    if (!failed)
        return Py_BuildValue("NON", fields, work->event ? work->event : Py_None, shown_ranges(&work->ranges));
    Py_XDECREF(fields);
    return NULL;
}

static void forget(Loop *l) {
    for (Py_ssize_t i = 0; i < l->count; i++)
        Py_XDECREF(l->heap[i].given);
    l->count = 0;
    while (l->inbox.count)
        Py_XDECREF(pop_waiting(&l->inbox).given);
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
    while (!failed && l->inbox.count) {
        Entry one = pop_waiting(&l->inbox);
        failed = append(waiting, Py_BuildValue("iLO", one.kind, (long long)one.about, one.given ? one.given : Py_None));
        Py_XDECREF(one.given);
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
    int64_t workers = l->workers;
#define ALLOCATE(type, name, length) \
    if (!(l->name = zeros(&l->name##_bytes, length, sizeof(type)))) return -1;
    ARRAYS(ALLOCATE)
#undef ALLOCATE
#define BY_WORKER(name) (l->name = PyMem_Calloc((size_t)workers, sizeof *l->name))
    if (!BY_WORKER(numbers) || !BY_WORKER(held) || !BY_WORKER(busy) || !BY_WORKER(unused) || !BY_WORKER(worker_mark) ||
        !BY_WORKER(local) || !BY_WORKER(paces)) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t worker = 0; worker < workers; worker++) {
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
    Py_CLEAR(l->shuffled);
#define RELEASE(type, name, length) Py_XDECREF(l->name##_bytes);
    ARRAYS(RELEASE)
#undef RELEASE
    for (long long worker = 0; l->numbers && worker < l->workers; worker++)
        Py_XDECREF(l->numbers[worker]);
    void *arrays[] = {l->numbers, l->held, l->busy, l->unused, l->worker_mark, l->heap, l->works, l->inbox.heap, l->named,
                      l->local, l->open, l->paces};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        PyMem_Free(arrays[i]);
    Py_TYPE(l)->tp_free(l);
}

#define ARRAY(type, name, length) {#name, T_OBJECT_EX, offsetof(Loop, name##_bytes), READONLY, NULL},
#define OBJECT(name) SHOWN(T_OBJECT, name, Loop)
#define SECOND(name) SHOWN(T_DOUBLE, name, Loop)
#define NUMBER(name) SHOWN(T_LONGLONG, name, Loop)
#define FLAG(name) SHOWN(T_BOOL, name, Loop)

static PyMemberDef loop_members[] = {
    ARRAYS(ARRAY) OBJECTS(OBJECT) SECONDS(SECOND) NUMBERS(NUMBER) FLAGS(FLAG){NULL}};

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
