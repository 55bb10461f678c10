/* The Python types of chain.h. */

/* ---- Worker ---------------------------------------------------------------------------------------------------- */

static int worker_visit(PyObject *self, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < ((Worker *)self)->num_ways; i++)
        Py_VISIT(((Worker *)self)->ways[i]);
    return 0;
}

static void worker_release(PyObject *object) {
    Worker *self = (Worker *)object;
    while (self->num_ways)
        Py_XDECREF(self->ways[--self->num_ways]);
    PyMem_Free(self->ways);
}

static Kind WorkerKind = {
    .type = {KIND(Worker, "What does not change from one iteration of a worker to the next.")},
    REFS(offsetof(Worker, number), offsetof(Worker, name), offsetof(Worker, task)),
    .visit = worker_visit,
    .release = worker_release,
};

static Worker *make_worker(Chain *chain, PyObject *number) {
    PyObject *name = item_of(chain->names, number);
    Task *task = name ? find_task(chain->work, name) : NULL;
    Worker *one = task ? instance_of(&WorkerKind) : NULL;
    if (!one)
        return NULL;
    one->number = Py_NewRef(number);
    one->name = Py_NewRef(name);
    one->task = (Task *)Py_NewRef(task);
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
    TIME(cpu_s, 0),
    TIME(computed_s, 0),
    TIME(overrun_s, 0),
    TIME(updating_s, 0),
    TIME(since_s, 0),
    TIME(receiving_since_s, 0),
    COUNT(samples, READONLY),
    COUNT(missing, 0),
    COUNT(receiving, 0),
    {NULL}};

static Kind IterationKind = { /* what refers to it breaks cycles: steps, queues, the clock */
    .type = {KIND(Iteration, "One Compute in progress."),
             .tp_methods = iteration_methods,
             .tp_members = iteration_members,
             .tp_getset = iteration_getset},
    REFS(offsetof(Iteration, chain), offsetof(Iteration, worker), offsetof(Iteration, order),
         offsetof(Iteration, result)),
};

static Iteration *make_iteration(Chain *chain, Worker *worker, PyObject *order, PyObject *result) {
    Iteration *one = instance_of(&IterationKind);
    if (!one)
        return NULL;
    one->chain = (Chain *)Py_NewRef(chain);
    one->worker = (Worker *)Py_NewRef(worker);
    one->order = Py_NewRef(order);
    one->result = Py_NewRef(result);
    return one;
}

/* ---- Chain ----------------------------------------------------------------------------------------------------- */

static int chain_visit(PyObject *self, visitproc visit, void *arg) {
    for (int stage = 0; stage < NUM_STAGES; stage++)
        Py_VISIT(((Chain *)self)->detours[stage]);
    return 0;
}

static int chain_clear(PyObject *object) {
    Chain *self = (Chain *)object;
    Py_CLEAR(self->ended);
    Py_CLEAR(self->tell);
    Py_CLEAR(self->by_stage);
    for (int stage = 0; stage < NUM_STAGES; stage++)
        Py_CLEAR(self->detours[stage]);
    return 0;
}

/* What Python carries out: name of a stage -> what is called with the iteration, and says whether it does. */
static int read_detours(Chain *self) {
    PyObject *name, *detour;
    for (Py_ssize_t at = 0; PyDict_Next(self->by_stage, &at, &name, &detour);) {
        int stage = stage_named(name);
        if (stage < 0)
            return -1;
        self->detours[stage] = Py_NewRef(detour);
    }
    return 0;
}

static const Field chain_fields[] = {{"work", 'o', offsetof(Chain, work), &TaskWorkKind.type},
                                     {"clock", 'o', offsetof(Chain, clock), &ClockKind.type},
                                     {"costs", 'o', offsetof(Chain, costs)},
                                     {"queues", 'o', offsetof(Chain, queues), &PyList_Type},
                                     {"names", 'o', offsetof(Chain, names), &PyDict_Type},
                                     {"jitter", 'o', offsetof(Chain, jitter), &PyDict_Type},
                                     {"messages", 'o', offsetof(Chain, messages), &PyDict_Type},
                                     {"profiles", 'o', offsetof(Chain, profiles), &PyDict_Type},
                                     {"cores", 'o', offsetof(Chain, cores), &PyDict_Type},
                                     {"idle_since_s", 'o', offsetof(Chain, idle_since_s), &PyDict_Type},
                                     {"under_way", 'o', offsetof(Chain, under_way), &PyDict_Type},
                                     {"ended", 'o', offsetof(Chain, ended)},
                                     {"timings", 'o', offsetof(Chain, timings)},
                                     {"arrived", 'o', offsetof(Chain, arrived)},
                                     {"model_bytes", 'd', offsetof(Chain, model_bytes)},
                                     {"copy_s", 'd', offsetof(Chain, copy_s)},
                                     {"uses_cores", 'd', offsetof(Chain, uses_cores)},
                                     {"shares_memory", 'p', offsetof(Chain, shares_memory)},
                                     {"detours", 'o', offsetof(Chain, by_stage), &PyDict_Type},
                                     {NULL}};

static int make_names(void) {
    if (!names_of_times)
        names_of_times = NAMES(WORK_TIMES(NAME));
    if (!name_grad_id)
        name_grad_id = PyUnicode_InternFromString("grad_id");
    if (!name_factor)
        name_factor = PyUnicode_InternFromString("factor");
    return names_of_times && name_grad_id && name_factor ? 0 : -1;
}

static PyObject *chain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Chain *self = make_instance(type, chain_fields, args, kwargs);
    if (!self)
        return NULL;
    if (!(self->workers = PyDict_New()) || read_prices(self->costs, &self->prices) || make_names() || read_detours(self))
        Py_CLEAR(self);
    else if (!self->shares_memory)
        self->send_s = self->copy_s + self->prices.carry_per_byte_s * self->model_bytes;
    return (PyObject *)self;
}

/* begin(order, result, worker, samples, accum, delay_s, slowdown_frac, sent_s): its order leaves the coordinator. */
static PyObject *chain_begin(Chain *self, PyObject *args) {
    PyObject *order, *result, *number;
    Py_ssize_t samples, accum;
    double delay_s, slowdown_frac, sent_s;
    if (!PyArg_ParseTuple(args, "OO!Onnddd:begin", &order, &PyTuple_Type, &result, &number, &samples, &accum, &delay_s,
                          &slowdown_frac, &sent_s))
        return NULL;
    return none_unless(begin_with(self, order, result, 0, 0, number, samples, accum, delay_s, slowdown_frac, sent_s));
}

static PyMethodDef chain_methods[] = {
    {"join", (PyCFunction)join, METH_O, "A capsule for the loop that decides; its gradients have this result."},
    {"begin", (PyCFunction)chain_begin, METH_VARARGS, "Begin an iteration: its order leaves the coordinator."},
    {NULL}};

static PyMemberDef chain_members[] = {
    {"loop", T_OBJECT, offsetof(Chain, loop), 0, "A capsule of the loop that decides; None: Python does."},
    {"tell", T_OBJECT, offsetof(Chain, tell), 0, "Takes the input of an arrival; None: ended is called instead."},
    {NULL}};

static Kind ChainKind = {
    .type = {KIND(Chain, "Iterations of workers on machines, stage by stage."),
             .tp_new = chain_new,
             .tp_clear = chain_clear,
             .tp_methods = chain_methods,
             .tp_members = chain_members},
    REFS(offsetof(Chain, work), offsetof(Chain, clock), offsetof(Chain, costs), offsetof(Chain, queues),
         offsetof(Chain, names), offsetof(Chain, jitter), offsetof(Chain, messages), offsetof(Chain, profiles), offsetof(Chain, cores),
         offsetof(Chain, idle_since_s), offsetof(Chain, under_way), offsetof(Chain, workers), offsetof(Chain, ended),
         offsetof(Chain, timings), offsetof(Chain, arrived), offsetof(Chain, tell), offsetof(Chain, loop),
         offsetof(Chain, result), offsetof(Chain, by_stage)),
    .visit = chain_visit,
};
