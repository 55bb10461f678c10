/* The Python types of clock.h, with the interface of runtime/virtual/clock.py. */

/* ---- Timeline -------------------------------------------------------------------------------------------------- */

static int timeline_visit(PyObject *self, visitproc visit, void *arg) {
    Timeline *timeline = (Timeline *)self;
    for (Py_ssize_t i = 0; i < timeline->count; i++) {
        Py_VISIT(timeline->heap[i].clock);
        Py_VISIT(timeline->heap[i].action);
        Py_VISIT(timeline->heap[i].args);
    }
    return 0;
}

static int timeline_clear(PyObject *self) {
    Timeline *timeline = (Timeline *)self;
    Py_CLEAR(timeline->clock);
    while (timeline->count) {
        Entry entry = timeline->heap[--timeline->count];
        drop_entry(&entry);
    }
    return 0;
}

static void timeline_release(PyObject *self) {
    timeline_clear(self);
    PyMem_Free(((Timeline *)self)->heap);
}

static PyObject *timeline_step(Timeline *self, PyObject *unused) { return none_unless(take_step(self)); }

static PyObject *timeline_advance(Timeline *self, PyObject *unused) {
    python_was_called = 0;
    do
        if (take_step(self))
            return NULL;
    while (!python_was_called && self->count);
    Py_RETURN_NONE;
}

static PyObject *shown_entry(const Entry *entry) {
    PyObject *args = entry->args ? Py_NewRef(entry->args) : PyTuple_New(0);
    return args ? Py_BuildValue("diLON", entry->when_s, entry->priority, (long long)entry->sequence, entry->action, args)
                : NULL;
}

static PyObject *timeline_lift(Timeline *self, PyObject *unused) {
    PyObject *all = PyList_New(0);
    Py_ssize_t kept = 0;
    while (all && self->count && self->heap[0].clock->ended)
        skip_ended(self);
    Py_ssize_t count = self->count;
    for (Py_ssize_t i = 0; i < count; i++) /* compiled steps stay */
        if (is_step(&self->heap[i])) {
            Entry step = self->heap[i];
            self->heap[i] = self->heap[kept];
            self->heap[kept++] = step;
        }
    for (Py_ssize_t i = kept; all && i < count; i++) {
        Entry entry = self->heap[i];
        PyObject *shown = shown_entry(&entry);
        if (!shown || PyList_Append(all, shown))
            Py_CLEAR(all);
        Py_XDECREF(shown);
        drop_entry(&entry);
    }
    self->count = 0;
    while (self->count < kept)
        push_entry(self, self->heap[self->count]);
    return all;
}

static PyObject *timeline_lay(Timeline *self, PyObject *args) {
    PyObject *entries, *action, *about;
    Clock *clock;
    double when_s;
    int priority;
    long long sequence;
    if (!PyArg_ParseTuple(args, "O!O!", &ClockKind.type, &clock, &PyList_Type, &entries))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entries); i++) {
        if (!PyArg_ParseTuple(PyList_GET_ITEM(entries, i), "diLOO!", &when_s, &priority, &sequence, &action,
                              &PyTuple_Type, &about))
            return NULL;
        int64_t before = self->sequence;
        self->sequence = sequence - 1; /* it keeps its number */
        int failed = add_entry(self, clock, when_s, priority, action, about);
        self->sequence = before;
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *timeline_peek(Timeline *self, PyObject *unused) {
    skip_ended(self);
    if (!self->count)
        Py_RETURN_NONE;
    return shown_entry(&self->heap[0]);
}

static PyObject *timeline_drop_ended(Timeline *self, PyObject *unused) {
    drop_ended(self);
    Py_RETURN_NONE;
}

static PyObject *timeline_next_s(Timeline *self, void *unused) {
    skip_ended(self);
    return PyFloat_FromDouble(self->count ? self->heap[0].lab_s : INFINITY);
}

static PyObject *timeline_moment(Timeline *self, void *unused) {
    return Py_BuildValue("(dd)", self->lab_s, self->rest_s);
}

static PyMethodDef timeline_methods[] = {
    {"lift", (PyCFunction)timeline_lift, METH_NOARGS, "Take out all scheduled actions."},
    {"lay", (PyCFunction)timeline_lay, METH_VARARGS, "Schedule actions of a clock as they were before."},
    {"peek", (PyCFunction)timeline_peek, METH_NOARGS, "The next action; None: there is none."},
    {"step", (PyCFunction)timeline_step, METH_NOARGS, "Advance to the next action and carry it out."},
    {"advance", (PyCFunction)timeline_advance, METH_NOARGS, "Carry out actions until one calls Python."},
    {"drop_ended", (PyCFunction)timeline_drop_ended, METH_NOARGS, "Forget what ended jobs had scheduled."},
    {NULL}};

static PyGetSetDef timeline_getset[] = {
    {"next_s", (getter)timeline_next_s, NULL, "Time of the next action."},
    {"moment", (getter)timeline_moment, NULL, "Time of the current action."},
    {NULL}};

static PyMemberDef timeline_members[] = {
    {"clock", T_OBJECT, offsetof(Timeline, clock), 0, "Clock of the current action's job."},
    {"sequence", T_LONGLONG, offsetof(Timeline, sequence), 0, "Actions that were ever scheduled."},
    {NULL}};

static Kind TimelineKind = {
    .type = {KIND(Timeline, "The scheduled actions of all jobs of a lab."),
             .tp_new = PyType_GenericNew,
             .tp_clear = timeline_clear,
             .tp_methods = timeline_methods,
             .tp_members = timeline_members,
             .tp_getset = timeline_getset},
    REFS(offsetof(Timeline, clock)),
    .visit = timeline_visit,
    .release = timeline_release,
};

/* ---- Clock ----------------------------------------------------------------------------------------------------- */

static PyObject *clock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"timeline", "offset_s", NULL};
    PyObject *timeline = Py_None;
    double offset_s = 0.0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Od", words, &timeline, &offset_s))
        return NULL;
    if (timeline != Py_None && !Py_IS_TYPE(timeline, &TimelineKind.type)) {
        PyErr_SetString(PyExc_TypeError, "a compiled clock needs a compiled timeline");
        return NULL;
    }
    Clock *self = (Clock *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->offset_s = offset_s;
    self->timeline = timeline == Py_None ? PyObject_CallNoArgs((PyObject *)&TimelineKind.type) : Py_NewRef(timeline);
    if (!self->timeline)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *clock_at(Clock *self, PyObject *const *args, Py_ssize_t count) {
    if (count < 3) {
        PyErr_SetString(PyExc_TypeError, "at(when_s, priority, action, *args)");
        return NULL;
    }
    double when_s = PyFloat_AsDouble(args[0]);
    int priority = PyLong_AsLong(args[1]);
    PyObject *about = NULL;
    if (PyErr_Occurred() || (count > 3 && !(about = PyTuple_New(count - 3))))
        return NULL;
    for (Py_ssize_t i = 3; i < count; i++)
        PyTuple_SET_ITEM(about, i - 3, Py_NewRef(args[i]));
    int failed = act_at(self, when_s, priority, args[2], about);
    Py_XDECREF(about);
    return none_unless(failed);
}

static PyObject *clock_step(Clock *self, PyObject *unused) {
    return none_unless(take_step((Timeline *)self->timeline));
}

static PyObject *clock_next_s(Clock *self, void *unused) {
    return timeline_next_s((Timeline *)self->timeline, NULL);
}

static PyObject *clock_catch_up(Clock *self, PyObject *unused) { return none_unless(catch_up(self)); }

static PyMethodDef clock_methods[] = {
    {"at", (PyCFunction)(void (*)(void))clock_at, METH_FASTCALL, "Call action(*args) at a time, or now if it passed."},
    {"step", (PyCFunction)clock_step, METH_NOARGS, "Carry out the next action."},
    {"catch_up", (PyCFunction)clock_catch_up, METH_NOARGS, "Advance to the lab's time."},
    {NULL}};

static PyMemberDef clock_members[] = {{"timeline", T_OBJECT, offsetof(Clock, timeline), READONLY, "Its lab's."},
                                      {"offset_s", T_DOUBLE, offsetof(Clock, offset_s), 0, "The lab's at its start."},
                                      {"now", T_DOUBLE, offsetof(Clock, now), 0, "Seconds since the job's start."},
                                      {"ended", T_BOOL, offsetof(Clock, ended), 0, "Whether the job is over."},
                                      {NULL}};

static PyGetSetDef clock_getset[] = {{"next_s", (getter)clock_next_s, NULL, "Time of the next action."}, {NULL}};

static Kind ClockKind = {
    .type = {KIND(Clock, "The time of one job."),
             .tp_new = clock_new,
             .tp_methods = clock_methods,
             .tp_members = clock_members,
             .tp_getset = clock_getset},
    REFS(offsetof(Clock, timeline)), /* which breaks the cycles: a clock is never without one */
};
