/* The Python type of orders.h, with the interface of its twin. */

static int read_prices(PyObject *costs, Prices *prices) {
    return read_float(costs, "latency_s", &prices->latency_s) ||
                   read_float(costs, "carry_per_byte_s", &prices->carry_per_byte_s) ||
                   read_float(costs, "within_per_byte_s", &prices->within_per_byte_s) ||
                   read_float(costs, "interrupt_per_byte_s", &prices->interrupt_per_byte_s) ||
                   read_float(costs, "update_base_s", &prices->update_base_s) ||
                   read_float(costs, "update_per_byte_s", &prices->update_per_byte_s) ||
                   read_float(costs, "sleep_overshoot_s", &prices->overshoot_s) ||
                   read_float(costs, "server_cores", &prices->server_cores) ||
                   read_float(costs, "compute_base_s", &prices->compute_base_s) ||
                   read_float(costs, "compute_per_sample_s", &prices->compute_per_sample_s) ||
                   read_float(costs, "stage_base_s", &prices->stage_base_s) ||
                   read_float(costs, "data_base_s", &prices->data_base_s) ||
                   read_float(costs, "data_per_sample_s", &prices->data_per_sample_s) ||
                   read_float(costs, "control_s", &prices->control_s) ||
                   read_float(costs, "worker_cores", &prices->worker_cores)
               ? -1
               : 0;
}

static int queue_traverse(Queue *self, visitproc visit, void *arg) {
    Py_VISIT(self->work);
    Py_VISIT(self->clock);
    Py_VISIT(self->task);
    Py_VISIT(self->there);
    Py_VISIT(self->known);
    Py_VISIT(self->cores);
    Py_VISIT(self->busy);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->orders[(self->first + i) % self->room]);
    return 0;
}

static int queue_clear(Queue *self) { /* orders refer to iterations, and these to the queues */
    while (self->count) {
        PyObject *order = take_order(self);
        Py_DECREF(order);
    }
    return 0;
}

static void queue_dealloc(Queue *self) {
    PyObject_GC_UnTrack(self);
    queue_clear(self);
    PyMem_Free(self->orders);
    Py_CLEAR(self->work);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->task);
    Py_CLEAR(self->there);
    Py_CLEAR(self->known);
    Py_CLEAR(self->cores);
    Py_CLEAR(self->busy);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"work", "clock", "task", "there", "costs", "num_bytes", "cores", "busy", "place", NULL};
    PyObject *work, *clock, *task, *there, *costs, *cores, *busy;
    double num_bytes;
    Py_ssize_t place;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!OOOdO!O!n", words, &TaskWorkType, &work, &ClockType, &clock,
                                     &task, &there, &costs, &num_bytes, &PyDict_Type, &cores, &PyList_Type, &busy,
                                     &place))
        return NULL;
    Queue *self = (Queue *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->work = (TaskWork *)Py_NewRef(work);
    self->clock = (Clock *)Py_NewRef(clock);
    self->task = Py_NewRef(task);
    self->there = Py_NewRef(there);
    self->cores = Py_NewRef(cores);
    self->busy = Py_NewRef(busy);
    self->place = place;
    self->num_bytes = num_bytes;
    if (read_prices(costs, &self->prices))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *queue_put(Queue *self, PyObject *order) { return none_unless(put_order(self, order)); }

static PyObject *queue_update(Queue *self, PyObject *args) {
    double at_s, delay_s, slowdown_frac;
    Py_ssize_t num_grads;
    if (!PyArg_ParseTuple(args, "dn(dd)", &at_s, &num_grads, &delay_s, &slowdown_frac))
        return NULL;
    return none_unless(order_update(self, at_s, num_grads, delay_s, slowdown_frac));
}

/* order_updates(queues, at_s, num_grads, disturb, sent_s): an update on every server, with what is injected into it. */
static PyObject *order_updates(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "order_updates(queues, at_s, num_grads, disturb, sent_s)");
        return NULL;
    }
    double at_s = PyFloat_AsDouble(args[1]), delay_s, slowdown_frac;
    Py_ssize_t num_grads = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); i++) {
        Queue *one = (Queue *)PyList_GET_ITEM(args[0], i);
        if (!Py_IS_TYPE(one, &QueueType)) {
            PyErr_SetString(PyExc_TypeError, "a compiled queue is needed");
            return NULL;
        }
        PyObject *about[] = {one->task, args[4]}, *found = PyObject_Vectorcall(args[3], about, 2, NULL);
        int failed = !found || !PyArg_ParseTuple(found, "dd", &delay_s, &slowdown_frac) ||
                     order_update(one, at_s, num_grads, delay_s, slowdown_frac);
        Py_XDECREF(found);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef queue_methods[] = {
    {"put", (PyCFunction)queue_put, METH_O, "An order has reached the server: a callable, called with what ends it."},
    {"update", (PyCFunction)queue_update, METH_VARARGS, "Order an update that reaches the server at a time."},
    {NULL}};

static PyMemberDef queue_members[] = {{"task", T_OBJECT, offsetof(Queue, task), READONLY, "Its name in the job."},
                                      {"void", T_BOOL, offsetof(Queue, gone), 0, "Whether it takes no orders."},
                                      {NULL}};

static PyTypeObject QueueType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Queue",
    .tp_basicsize = sizeof(Queue),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The orders of one server: the twin of runtime.virtual.tasks.host_servers.Queue.",
    .tp_new = queue_new,
    .tp_traverse = (traverseproc)queue_traverse,
    .tp_clear = (inquiry)queue_clear,
    .tp_dealloc = (destructor)queue_dealloc,
    .tp_methods = queue_methods,
    .tp_members = queue_members,
};
