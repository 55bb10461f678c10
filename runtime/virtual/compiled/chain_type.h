/* The Python types of chain.h. */

/* ---- Worker ---------------------------------------------------------------------------------------------------- */

static int worker_traverse(Worker *self, visitproc visit, void *arg) {
    Py_VISIT(self->number);
    Py_VISIT(self->name);
    Py_VISIT(self->task);
    for (Py_ssize_t i = 0; i < self->num_ways; i++)
        Py_VISIT(self->ways[i]);
    return 0;
}

static void worker_dealloc(Worker *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->number);
    Py_CLEAR(self->name);
    Py_CLEAR(self->task);
    while (self->num_ways)
        Py_XDECREF(self->ways[--self->num_ways]);
    PyMem_Free(self->ways);
    PyObject_GC_Del(self);
}

static PyTypeObject WorkerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Worker",
    .tp_basicsize = sizeof(Worker),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)worker_traverse,
    .tp_dealloc = (destructor)worker_dealloc,
};

static Worker *make_worker(Chain *chain, PyObject *number) {
    PyObject *name = item_of(chain->names, number);
    Task *task = name ? find_task(chain->work, name) : NULL;
    Worker *one = task ? PyObject_GC_New(Worker, &WorkerType) : NULL;
    if (!one)
        return NULL;
    one->number = Py_NewRef(number);
    one->name = Py_NewRef(name);
    one->task = (Task *)Py_NewRef(task);
    one->ways = NULL;
    one->num_ways = 0;
    PyObject_GC_Track(one);
    return one;
}

/* A worker, borrowed; NULL with an exception. */
static Worker *find_worker(Chain *chain, PyObject *number) {
    Worker *one = (Worker *)PyDict_GetItemWithError(chain->workers, number);
    if (PyErr_Occurred() || (one && one->task->is_here))
        return one;
    one = make_worker(chain, number);
    int failed = !one || PyDict_SetItem(chain->workers, number, (PyObject *)one);
    Py_XDECREF(one); /* the dict holds it */
    return failed ? NULL : one;
}

/* ---- Iteration, which Python reads at its end and may void ------------------------------------------------------- */

static int iteration_traverse(Iteration *self, visitproc visit, void *arg) {
    Py_VISIT(self->chain);
    Py_VISIT(self->worker);
    Py_VISIT(self->order);
    Py_VISIT(self->result);
    return 0;
}

static void iteration_dealloc(Iteration *self) { /* what refers to it breaks cycles: steps, queues, the clock */
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->chain);
    Py_CLEAR(self->worker);
    Py_CLEAR(self->order);
    Py_CLEAR(self->result);
    PyObject_GC_Del(self);
}

/* Go on to the stage of this name, which Python does at the end of one that it carries out. */
static PyObject *iteration_go(Iteration *self, PyObject *name) {
    int stage = stage_named(name);
    return none_unless(stage < 0 || advance_to(self, stage));
}

static PyObject *iteration_received(Iteration *self, PyObject *unused) { return none_unless(received(self)); }

static PyObject *iteration_came(Iteration *self, PyObject *unused) { return none_unless(part_came(self)); }

static PyObject *iteration_taken(Iteration *self, PyObject *unused) { return none_unless(part_taken(self)); }

static PyObject *iteration_delay(Iteration *self, PyObject *unused) { return none_unless(delay(self)); }

static PyObject *iteration_stage(Iteration *self, void *unused) { return PyUnicode_FromString(ROWS[self->stage].name); }

static PyMethodDef iteration_methods[] = {
    {"go", (PyCFunction)iteration_go, METH_O, "Go on to the stage of this name."},
    {"received", (PyCFunction)iteration_received, METH_NOARGS, "A part of the parameters is there."},
    {"came", (PyCFunction)iteration_came, METH_NOARGS, "A message with a part of the parameters is there."},
    {"delay", (PyCFunction)iteration_delay, METH_NOARGS, "Its device is done; what is injected follows."},
    {"taken", (PyCFunction)iteration_taken, METH_NOARGS, "A part of the gradient has been taken."},
    {NULL}};

static PyGetSetDef iteration_getset[] = {{"stage", (getter)iteration_stage, NULL, "The name of its stage."}, {NULL}};

#define TIME(name, flags) {#name, T_DOUBLE, offsetof(Iteration, name), flags, "Seconds."}
#define COUNT(name, flags) {#name, T_PYSSIZET, offsetof(Iteration, name), flags, "A number."}

static PyMemberDef iteration_members[] = {
    {"place", T_LONGLONG, offsetof(Iteration, place), 0, "Of its work in the loop that decides."},
    {"order", T_OBJECT, offsetof(Iteration, order), READONLY, "The coordinator's."},
    {"result", T_OBJECT, offsetof(Iteration, result), READONLY, "The model's report."},
    {"void", T_BOOL, offsetof(Iteration, gone), 0, "Whether its worker is lost."},
    {"factor", T_DOUBLE, offsetof(Iteration, factor), READONLY, "By which the jitter makes its computing longer."},
    {"amount", T_DOUBLE, offsetof(Iteration, amount), READONLY, "Of what its worker does in this stage."},
    TIME(sent_s, READONLY),
    TIME(wait_s, READONLY),
    TIME(data_s, READONLY),
    TIME(pull_s, READONLY),
    TIME(compute_s, READONLY),
    TIME(injected_s, READONLY),
    TIME(recv_s, READONLY),
    TIME(cpu_s, READONLY),
    TIME(overrun_s, 0),
    TIME(updating_s, 0),
    TIME(since_s, 0),
    TIME(receiving_since_s, 0),
    COUNT(samples, READONLY),
    COUNT(missing, 0),
    COUNT(receiving, 0),
    {NULL}};

static PyTypeObject IterationType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Iteration",
    .tp_basicsize = sizeof(Iteration),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "One Compute in progress.",
    .tp_traverse = (traverseproc)iteration_traverse,
    .tp_dealloc = (destructor)iteration_dealloc,
    .tp_methods = iteration_methods,
    .tp_members = iteration_members,
    .tp_getset = iteration_getset,
};

static Iteration *make_iteration(Chain *chain, Worker *worker, PyObject *order, PyObject *result) {
    Iteration *one = PyObject_GC_New(Iteration, &IterationType);
    if (!one)
        return NULL;
    memset((char *)one + sizeof(PyObject), 0, sizeof(Iteration) - sizeof(PyObject));
    one->chain = (Chain *)Py_NewRef(chain);
    one->worker = (Worker *)Py_NewRef(worker);
    one->order = Py_NewRef(order);
    one->result = Py_NewRef(result);
    PyObject_GC_Track(one);
    return one;
}

/* ---- Chain ----------------------------------------------------------------------------------------------------- */

static int chain_traverse(Chain *self, visitproc visit, void *arg) {
    Py_VISIT(self->work);
    Py_VISIT(self->clock);
    Py_VISIT(self->queues);
    Py_VISIT(self->names);
    Py_VISIT(self->jitter);
    Py_VISIT(self->profiles);
    Py_VISIT(self->cores);
    Py_VISIT(self->idle_since_s);
    Py_VISIT(self->under_way);
    Py_VISIT(self->workers);
    Py_VISIT(self->ended);
    Py_VISIT(self->timings);
    Py_VISIT(self->arrived);
    Py_VISIT(self->tell);
    Py_VISIT(self->loop);
    Py_VISIT(self->result);
    for (int stage = 0; stage < NUM_STAGES; stage++)
        Py_VISIT(self->detours[stage]);
    return 0;
}

static int chain_clear(Chain *self) {
    Py_CLEAR(self->ended);
    Py_CLEAR(self->tell);
    for (int stage = 0; stage < NUM_STAGES; stage++)
        Py_CLEAR(self->detours[stage]);
    return 0;
}

static void chain_dealloc(Chain *self) {
    PyObject_GC_UnTrack(self);
    chain_clear(self);
    Py_CLEAR(self->work);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->queues);
    Py_CLEAR(self->names);
    Py_CLEAR(self->jitter);
    Py_CLEAR(self->profiles);
    Py_CLEAR(self->cores);
    Py_CLEAR(self->idle_since_s);
    Py_CLEAR(self->under_way);
    Py_CLEAR(self->workers);
    Py_CLEAR(self->ended);
    Py_CLEAR(self->timings);
    Py_CLEAR(self->arrived);
    Py_CLEAR(self->tell);
    Py_CLEAR(self->loop);
    Py_CLEAR(self->result);
    Py_TYPE(self)->tp_free(self);
}

static int make_names(void) {
    if (!names_of_times)
        names_of_times = Py_BuildValue("(sssssssss)", "wait_s", "data_s", "pull_s", "compute_s", "send_s", "injected_s",
                                       "overrun_s", "recv_s", "cpu_s");
    if (!name_grad_id)
        name_grad_id = PyUnicode_InternFromString("grad_id");
    if (!name_factor)
        name_factor = PyUnicode_InternFromString("factor");
    return names_of_times && name_grad_id && name_factor ? 0 : -1;
}

/* What Python carries out: name of a stage -> what is called with the iteration, and says whether it does. */
static int read_detours(Chain *self, PyObject *detours) {
    PyObject *name, *detour;
    for (Py_ssize_t at = 0; PyDict_Next(detours, &at, &name, &detour);) {
        int stage = stage_named(name);
        if (stage < 0)
            return -1;
        self->detours[stage] = Py_NewRef(detour);
    }
    return 0;
}

static PyObject *chain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"work",         "clock",     "costs", "queues",  "names",   "jitter",      "profiles", "cores",
                            "idle_since_s", "under_way", "ended", "timings", "arrived", "model_bytes", "copy_s",
                            "uses_cores",   "shares_memory", "detours", NULL};
    PyObject *work, *clock, *costs, *queues, *names, *jitter, *profiles, *cores, *idle_since_s, *under_way, *ended;
    PyObject *timings, *arrived, *detours;
    double model_bytes, copy_s, uses_cores;
    int shares_memory;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!O!OO!O!O!O!O!O!O!OOOdddpO!", words, &TaskWorkType, &work, &ClockType,
                                     &clock, &costs, &PyList_Type, &queues, &PyDict_Type, &names, &PyDict_Type, &jitter,
                                     &PyDict_Type, &profiles, &PyDict_Type, &cores, &PyDict_Type, &idle_since_s,
                                     &PyDict_Type, &under_way, &ended, &timings, &arrived, &model_bytes, &copy_s,
                                     &uses_cores, &shares_memory, &PyDict_Type, &detours))
        return NULL;
    Chain *self = (Chain *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->work = (TaskWork *)Py_NewRef(work);
    self->clock = (Clock *)Py_NewRef(clock);
    self->queues = Py_NewRef(queues);
    self->names = Py_NewRef(names);
    self->jitter = Py_NewRef(jitter);
    self->profiles = Py_NewRef(profiles);
    self->cores = Py_NewRef(cores);
    self->idle_since_s = Py_NewRef(idle_since_s);
    self->under_way = Py_NewRef(under_way);
    self->ended = Py_NewRef(ended);
    self->timings = Py_NewRef(timings);
    self->arrived = Py_NewRef(arrived);
    self->workers = PyDict_New();
    self->copy_s = copy_s;
    self->uses_cores = uses_cores;
    self->shares_memory = shares_memory;
    if (!self->workers || read_prices(costs, &self->prices) || make_names() || read_detours(self, detours))
        Py_CLEAR(self);
    else
        self->send_s = shares_memory ? 0.0 : copy_s + self->prices.carry_per_byte_s * model_bytes;
    return (PyObject *)self;
}

/* begin(order, result, worker, samples, accum, delay_s, slowdown_frac, sent_s): its order leaves the coordinator. */
static PyObject *chain_begin(Chain *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 8 || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[1]) != 3) {
        PyErr_SetString(PyExc_TypeError, "begin(order, result, worker, samples, accum, delay_s, slowdown_frac, sent_s)");
        return NULL;
    }
    Worker *worker = find_worker(self, args[2]);
    Iteration *one = worker ? make_iteration(self, worker, args[0], args[1]) : NULL;
    if (!one)
        return NULL;
    one->samples = PyLong_AsSsize_t(args[3]);
    one->accum = PyLong_AsSsize_t(args[4]);
    one->delay_s = PyFloat_AsDouble(args[5]);
    one->slowdown_frac = PyFloat_AsDouble(args[6]);
    one->sent_s = PyFloat_AsDouble(args[7]);
    int failed = PyErr_Occurred() || begin_iteration(one);
    Py_DECREF(one);
    return none_unless(failed);
}

static PyMethodDef chain_methods[] = {
    {"join", (PyCFunction)join, METH_O, "A capsule for the loop that decides; its gradients have this result."},
    {"begin", (PyCFunction)(void (*)(void))chain_begin, METH_FASTCALL, "Begin an iteration: its order leaves the coordinator."},
    {NULL}};

static PyMemberDef chain_members[] = {
    {"loop", T_OBJECT, offsetof(Chain, loop), 0, "A capsule of the loop that decides; None: Python does."},
    {"tell", T_OBJECT, offsetof(Chain, tell), 0, "Takes the input of an arrival; None: ended is called instead."},
    {NULL}};

static PyTypeObject ChainType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Chain",
    .tp_basicsize = sizeof(Chain),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Iterations of workers on machines, stage by stage.",
    .tp_new = chain_new,
    .tp_traverse = (traverseproc)chain_traverse,
    .tp_clear = (inquiry)chain_clear,
    .tp_dealloc = (destructor)chain_dealloc,
    .tp_methods = chain_methods,
    .tp_members = chain_members,
};
