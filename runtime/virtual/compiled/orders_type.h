/* The Python type of orders.h; _hosts.pyi is its interface. */

static const Field prices_fields[] = {
#define PRICE(name) {#name, 'd', offsetof(Prices, name)}
    PRICE(latency_s), PRICE(carry_per_byte_s), PRICE(within_per_byte_s), PRICE(interrupt_per_byte_s),
    PRICE(update_base_s), PRICE(update_per_byte_s), PRICE(sleep_overshoot_s), PRICE(server_cores),
    PRICE(compute_base_s), PRICE(compute_per_sample_s), PRICE(stage_base_s), PRICE(data_base_s),
    PRICE(data_per_sample_s), PRICE(control_s), PRICE(worker_cores), PRICE(wait_cores),
    PRICE(server_wait_cores), PRICE(message_sigma), {NULL}};

static int read_prices(PyObject *costs, Prices *prices) {
    for (const Field *field = prices_fields; field->word; field++)
        if (read_float(costs, field->word, (double *)((char *)prices + field->at)))
            return -1;
    return 0;
}

static int queue_visit(PyObject *object, visitproc visit, void *arg) {
    Queue *self = (Queue *)object;
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->orders[(self->first + i) % self->room]);
    return 0;
}

static int queue_clear(PyObject *self) { /* orders refer to iterations, and these to the queues */
    while (((Queue *)self)->count) {
        PyObject *order = take_order((Queue *)self);
        Py_DECREF(order);
    }
    return 0;
}

static void queue_release(PyObject *self) {
    queue_clear(self);
    PyMem_Free(((Queue *)self)->orders);
}

static const Field queue_fields[] = {{"work", 'o', offsetof(Queue, work), &TaskWorkKind.type},
                                     {"clock", 'o', offsetof(Queue, clock), &ClockKind.type},
                                     {"task", 'o', offsetof(Queue, task)},
                                     {"there", 'o', offsetof(Queue, there)},
                                     {"costs", 'o', offsetof(Queue, costs)},
                                     {"num_bytes", 'd', offsetof(Queue, num_bytes)},
                                     {"cores", 'o', offsetof(Queue, cores), &PyDict_Type},
                                     {"busy", 'o', offsetof(Queue, busy), &PyList_Type},
                                     {"place", 'n', offsetof(Queue, place)},
                                     {NULL}};

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Queue *self = make_instance(type, queue_fields, args, kwargs);
    if (self && read_prices(self->costs, &self->prices))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *queue_put(Queue *self, PyObject *order) { return none_unless(put_order(self, order)); }

/* order_updates(queues, at_s, num_grads, disturb, sent_s): an update on every server, with what is injected into it. */
static PyObject *order_updates(PyObject *module, PyObject *args) {
    PyObject *queues, *disturb;
    double at_s, sent_s;
    Py_ssize_t num_grads;
    if (!PyArg_ParseTuple(args, "O!dnOd:order_updates", &PyList_Type, &queues, &at_s, &num_grads, &disturb, &sent_s))
        return NULL;
    return none_unless(order_all(queues, at_s, num_grads, disturb, sent_s));
}

static PyMethodDef queue_methods[] = {
    {"put", (PyCFunction)queue_put, METH_O, "An order has reached the server: a callable, called with what ends it."},
    {NULL}};

static PyMemberDef queue_members[] = {{"task", T_OBJECT, offsetof(Queue, task), READONLY, "Its name in the job."},
                                      {"void", T_BOOL, offsetof(Queue, gone), 0, "Whether it takes no orders."},
                                      {NULL}};

static Kind QueueKind = {
    .type = {KIND(Queue, "The orders of one task."),
             .tp_new = queue_new,
             .tp_clear = queue_clear,
             .tp_methods = queue_methods,
             .tp_members = queue_members},
    REFS(offsetof(Queue, work), offsetof(Queue, clock), offsetof(Queue, task), offsetof(Queue, there),
         offsetof(Queue, known), offsetof(Queue, cores), offsetof(Queue, busy), offsetof(Queue, costs)),
    .visit = queue_visit,
    .release = queue_release,
};
