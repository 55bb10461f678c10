/* The Python type of task_work.h; _hosts.pyi is its interface. */

/* ---- tasks, ways and messages, which Python never sees --------------------------------------------------------------- */

static int task_visit(PyObject *self, visitproc visit, void *arg) {
    for (Message *one = ((Task *)self)->first; one; one = one->after)
        Py_VISIT(one);
    return 0;
}

static int task_clear(PyObject *object) {
    Task *self = (Task *)object;
    Py_CLEAR(self->waiting);
    while (self->first)
        take_off(self->first);
    return 0;
}

/* Names show the keys of activities: a task is the key of its work, a way of its flow. */
static PyObject *task_repr(PyObject *self) { return PyObject_Repr(((Task *)self)->name); }

static PyObject *way_repr(PyObject *self) { return PyObject_Repr(((Way *)self)->path); }

static Kind TaskKind = {
    .type = {KIND(Task, "A task."), .tp_clear = task_clear, .tp_repr = task_repr},
    REFS(offsetof(Task, name), offsetof(Task, cores), offsetof(Task, waiting), offsetof(Task, accounts),
         offsetof(Task, set)),
    .visit = task_visit,
};

static Kind WayKind = { /* activities hold their way: at its end it has none */
    .type = {KIND(Way, "What messages of a path use."), .tp_repr = way_repr},
    REFS(offsetof(Way, path), offsetof(Way, links), offsetof(Way, accounts), offsetof(Way, set), offsetof(Way, ends[0]),
         offsetof(Way, ends[1])),
};

static Kind MessageKind = {.type = {KIND(Message, "A message on its way.")},
                           REFS(offsetof(Message, work), offsetof(Message, task), offsetof(Message, way),
                                offsetof(Message, then))};

/* ---- TaskWork -------------------------------------------------------------------------------------------------- */

static int task_work_clear(PyObject *self) { /* tasks break their own cycles */
    if (((TaskWork *)self)->tasks)
        PyDict_Clear(((TaskWork *)self)->tasks);
    return 0;
}

static void task_work_release(PyObject *self) {} /* its tasks may live on */

static const Field task_work_fields[] = {{"clock", 'o', offsetof(TaskWork, clock), &ClockKind.type},
                                         {"processors", 'o', offsetof(TaskWork, processors), &SharingKind.type},
                                         {"links", 'o', offsetof(TaskWork, links), &SharingKind.type},
                                         {"way_of", 'o', offsetof(TaskWork, way_of)},
                                         {NULL}};

static PyObject *task_work_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    TaskWork *self = make_instance(type, task_work_fields, args, kwargs);
    if (self && (!(self->tasks = PyDict_New()) || !(self->ways = PyDict_New())))
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

static PyObject *task_work_work_beside(TaskWork *self, PyObject *args) { return act(self, args, work_beside); }

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
    {"work_beside", (PyCFunction)task_work_work_beside, METH_VARARGS, "Work of another thread of the task."},
    {"compute", (PyCFunction)task_work_compute, METH_VARARGS, "Work on as many cores as the task can use."},
    {"send", (PyCFunction)task_work_send, METH_VARARGS, "Send a message along a path."},
    {"charged_s", (PyCFunction)task_work_charged_s, METH_O, "Core-seconds of interruptions charged to a task so far."},
    {NULL}};

static Kind TaskWorkKind = {
    .type = {KIND(TaskWork, "What tasks do on machines."),
             .tp_new = task_work_new,
             .tp_clear = task_work_clear,
             .tp_methods = task_work_methods},
    REFS(offsetof(TaskWork, clock), offsetof(TaskWork, processors), offsetof(TaskWork, links),
         offsetof(TaskWork, way_of), offsetof(TaskWork, tasks), offsetof(TaskWork, ways)),
    .release = task_work_release,
};
