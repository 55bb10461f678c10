/* The Python type of task_work.h, with the interface of its twin. */

/* ---- tasks, ways and messages, which Python never sees --------------------------------------------------------------- */

static int task_traverse(Task *self, visitproc visit, void *arg) {
    Py_VISIT(self->name);
    Py_VISIT(self->cores);
    Py_VISIT(self->waiting);
    for (Message *one = self->first; one; one = one->after)
        Py_VISIT(one);
    return 0;
}

static int task_clear(Task *self) {
    Py_CLEAR(self->waiting);
    while (self->first)
        take_off(self->first);
    return 0;
}

static void task_dealloc(Task *self) {
    PyObject_GC_UnTrack(self);
    task_clear(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->accounts);
    Py_CLEAR(self->cores);
    Py_CLEAR(self->set);
    PyObject_GC_Del(self);
}

static PyObject *task_repr(Task *self) { return PyObject_Repr(self->name); } /* it is the key of its work */

static PyTypeObject TaskType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Task",
    .tp_basicsize = sizeof(Task),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)task_traverse,
    .tp_clear = (inquiry)task_clear,
    .tp_dealloc = (destructor)task_dealloc,
    .tp_repr = (reprfunc)task_repr,
};

static int way_traverse(Way *self, visitproc visit, void *arg) {
    Py_VISIT(self->path);
    Py_VISIT(self->links);
    Py_VISIT(self->ends[0]);
    Py_VISIT(self->ends[1]);
    return 0;
}

static void way_dealloc(Way *self) { /* activities hold their way: it has none any more */
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->path);
    Py_CLEAR(self->links);
    Py_CLEAR(self->accounts);
    Py_CLEAR(self->set);
    Py_CLEAR(self->ends[0]);
    Py_CLEAR(self->ends[1]);
    PyObject_GC_Del(self);
}

static PyObject *way_repr(Way *self) { return PyObject_Repr(self->path); } /* it is the key of its flow */

static PyTypeObject WayType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Way",
    .tp_basicsize = sizeof(Way),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)way_traverse,
    .tp_dealloc = (destructor)way_dealloc,
    .tp_repr = (reprfunc)way_repr,
};

static int message_traverse(Message *self, visitproc visit, void *arg) {
    Py_VISIT(self->work);
    Py_VISIT(self->task);
    Py_VISIT(self->way);
    Py_VISIT(self->then);
    return 0;
}

static void message_dealloc(Message *self) { /* a task that it is dropped with holds it: it has none any more */
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->work);
    Py_CLEAR(self->way);
    Py_CLEAR(self->then);
    PyObject_GC_Del(self);
}

static PyTypeObject MessageType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Message",
    .tp_basicsize = sizeof(Message),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)message_traverse,
    .tp_dealloc = (destructor)message_dealloc,
};

/* ---- TaskWork -------------------------------------------------------------------------------------------------- */

static int task_work_traverse(TaskWork *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    Py_VISIT(self->processors);
    Py_VISIT(self->links);
    Py_VISIT(self->way_of);
    Py_VISIT(self->tasks);
    Py_VISIT(self->ways);
    return 0;
}

static int task_work_clear(TaskWork *self) { /* tasks break their own cycles */
    if (self->tasks)
        PyDict_Clear(self->tasks);
    return 0;
}

static void task_work_dealloc(TaskWork *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->processors);
    Py_CLEAR(self->links);
    Py_CLEAR(self->way_of);
    Py_CLEAR(self->tasks);
    Py_CLEAR(self->ways);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *task_work_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"clock", "processors", "links", "way_of", NULL};
    PyObject *clock, *processors, *links, *way_of;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O", words, &ClockType, &clock, &SharingType, &processors,
                                     &SharingType, &links, &way_of))
        return NULL;
    TaskWork *self = (TaskWork *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->clock = (Clock *)Py_NewRef(clock);
    self->processors = (Sharing *)Py_NewRef(processors);
    self->links = (Sharing *)Py_NewRef(links);
    self->way_of = Py_NewRef(way_of);
    self->tasks = PyDict_New();
    self->ways = PyDict_New();
    if (!self->tasks || !self->ways)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *task_work_admit(TaskWork *self, PyObject *args) {
    PyObject *name, *cores;
    double uses_cores;
    if (!PyArg_ParseTuple(args, "OdO!", &name, &uses_cores, &PyTuple_Type, &cores))
        return NULL;
    return none_unless(admit_task(self, name, uses_cores, cores));
}

/* Whether a weight makes sense; else 0, with an exception. */
static int is_weight(double weight) {
    return (weight > 0 && weight < INFINITY) || !refuse("weight=%S: must be finite and more than 0", weight, 0.0);
}

static PyObject *task_work_move(TaskWork *self, PyObject *args) {
    PyObject *name, *cores;
    double weight;
    if (!PyArg_ParseTuple(args, "OO!d", &name, &PyTuple_Type, &cores, &weight) || !is_weight(weight))
        return NULL;
    Task *task = find_task(self, name);
    if (!task || forget_task(self, task))
        return NULL;
    Py_SETREF(task->cores, Py_NewRef(cores));
    Py_CLEAR(task->set);
    task->weight = weight;
    forget_ways(self);
    Py_RETURN_NONE;
}

static PyObject *task_work_weigh(TaskWork *self, PyObject *args) {
    PyObject *name;
    double weight;
    if (!PyArg_ParseTuple(args, "Od", &name, &weight) || !is_weight(weight))
        return NULL;
    Task *task = find_task(self, name);
    return task ? none_unless(weigh_task(self, task, weight)) : NULL;
}

static PyObject *task_work_dismiss(TaskWork *self, PyObject *name) {
    Task *task = find_task(self, name);
    if (!task || forget_task(self, task))
        return NULL;
    task->is_here = 0;
    return none_unless(PyDict_DelItem(self->tasks, name));
}

static PyObject *task_work_forget(TaskWork *self, PyObject *name) {
    Task *task = find_task(self, name);
    return task ? none_unless(forget_task(self, task)) : NULL;
}

static PyObject *task_work_pause(TaskWork *self, PyObject *name) {
    Task *task = find_task(self, name);
    if (task)
        task->paused = 1;
    return none_unless(!task);
}

static PyObject *task_work_resume(TaskWork *self, PyObject *name) {
    Task *task = find_task(self, name);
    return task ? none_unless(resume_task(task)) : NULL;
}

static PyObject *task_work_awake(TaskWork *self, PyObject *args) {
    PyObject *name, *then;
    if (!PyArg_ParseTuple(args, "OO", &name, &then))
        return NULL;
    PyObject *task = PyDict_GetItemWithError(self->tasks, name);
    if (!task && PyErr_Occurred())
        return NULL;
    return none_unless(task ? when_awake((Task *)task, then) : go_on(then)); /* one that has left is not paused */
}

/* Let a task do something for so many seconds or core-seconds. */
static PyObject *act(TaskWork *self, PyObject *args, int (*acts)(TaskWork *, Task *, double, PyObject *)) {
    PyObject *name, *then;
    double amount;
    if (!PyArg_ParseTuple(args, "OdO", &name, &amount, &then))
        return NULL;
    Task *task = find_task(self, name);
    return task ? none_unless(acts(self, task, amount, then)) : NULL;
}

static PyObject *task_work_sleep(TaskWork *self, PyObject *args) { return act(self, args, sleep_task); }

static PyObject *task_work_work(TaskWork *self, PyObject *args) { return act(self, args, work_task); }

static PyObject *task_work_compute(TaskWork *self, PyObject *args) { return act(self, args, compute_task); }

static PyObject *task_work_send(TaskWork *self, PyObject *args) {
    PyObject *name, *path, *then;
    double num_bytes, latency_s, carry_s = 0.0, within_s = 0.0, interrupt_s = 0.0;
    if (!PyArg_ParseTuple(args, "OO!ddO|ddd", &name, &PyTuple_Type, &path, &num_bytes, &latency_s, &then, &carry_s,
                          &within_s, &interrupt_s))
        return NULL;
    Task *task = find_task(self, name);
    return task ? none_unless(send_message(self, task, path, num_bytes, latency_s, then, carry_s, within_s, interrupt_s))
                : NULL;
}

static PyObject *task_work_charged_s(TaskWork *self, PyObject *name) {
    Task *task = find_task(self, name);
    return task ? PyFloat_FromDouble(task->charged_s) : NULL;
}

static PyMethodDef task_work_methods[] = {
    {"admit", (PyCFunction)task_work_admit, METH_VARARGS, "A task, its cores and its processor resources."},
    {"move", (PyCFunction)task_work_move, METH_VARARGS, "A task's next process uses other processor resources."},
    {"weigh", (PyCFunction)task_work_weigh, METH_VARARGS, "Give all that a task does a weight together."},
    {"dismiss", (PyCFunction)task_work_dismiss, METH_O, "A task that will never do anything again."},
    {"forget", (PyCFunction)task_work_forget, METH_O, "Drop the work of a task whose process is gone."},
    {"pause", (PyCFunction)task_work_pause, METH_O, "A task does nothing from now on."},
    {"resume", (PyCFunction)task_work_resume, METH_O, "A task continues with whatever waits for that."},
    {"awake", (PyCFunction)task_work_awake, METH_VARARGS, "Go on now, or when the task is no longer paused."},
    {"sleep", (PyCFunction)task_work_sleep, METH_VARARGS, "Wait without using a processor."},
    {"work", (PyCFunction)task_work_work, METH_VARARGS, "Work of one thread."},
    {"compute", (PyCFunction)task_work_compute, METH_VARARGS, "Work on as many cores as the task can use."},
    {"send", (PyCFunction)task_work_send, METH_VARARGS, "Send a message along a path."},
    {"charged_s", (PyCFunction)task_work_charged_s, METH_O, "Core-seconds of interruptions charged to a task so far."},
    {NULL}};

static PyTypeObject TaskWorkType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.TaskWork",
    .tp_basicsize = sizeof(TaskWork),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "What tasks do on machines: the twin of runtime.virtual.machines.task_work.TaskWork.",
    .tp_new = task_work_new,
    .tp_traverse = (traverseproc)task_work_traverse,
    .tp_clear = (inquiry)task_work_clear,
    .tp_dealloc = (destructor)task_work_dealloc,
    .tp_methods = task_work_methods,
};
