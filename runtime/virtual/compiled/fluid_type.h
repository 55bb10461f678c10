/* The Python type of fluid.h; _hosts.pyi is its interface. */

static int fluid_visit(PyObject *self, visitproc visit, void *arg) {
    for (Activity *one = ((Fluid *)self)->first; one; one = one->after) {
        Py_VISIT(one->key);
        Py_VISIT(one->then);
        Py_VISIT(one->accounts);
    }
    return 0;
}

/* Break cycles: what happens at the end of activities never will. */
static int fluid_clear(PyObject *object) {
    Fluid *self = (Fluid *)object;
    while (self->first) {
        Activity *one = self->first;
        if (one->running)
            release(self, one);
        if (discard(self, one))
            PyErr_Clear();
    }
    self->num_ended = 0;
    return 0;
}

static void fluid_release(PyObject *object) {
    Fluid *self = (Fluid *)object;
    fluid_clear(object);
    while (self->resources) {
        Resource *one = self->resources;
        self->resources = one->older;
        PyMem_Free(one);
    }
    free_room(self);
}

static int add_resources(Fluid *self, PyObject *capacities) {
    PyObject *items = PyMapping_Items(capacities);
    int failed = !items;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(items); i++) {
        PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 0);
        double capacity = PyFloat_AsDouble(PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 1));
        failed = PyErr_Occurred() || add_resource(self, name, capacity);
    }
    Py_XDECREF(items);
    PyDict_Clear(self->sets);
    self->generation++;
    return failed ? -1 : 0;
}

static int remove_resources(Fluid *self, PyObject *names) {
    PyObject *each = PySequence_Fast(names, "names must be iterable");
    int failed = !each;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(each); i++)
        failed = remove_resource(self, PySequence_Fast_GET_ITEM(each, i));
    Py_XDECREF(each);
    PyDict_Clear(self->sets);
    self->generation++;
    return failed ? -1 : 0;
}

static Fluid *make_fluid(PyTypeObject *type, PyObject *capacities) {
    Fluid *self = (Fluid *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->now_s = -INFINITY;
    self->names = PyDict_New();
    self->sets = PyDict_New();
    self->keys = PyDict_New();
    if (!self->names || !self->sets || !self->keys || make_room(self) || add_resources(self, capacities))
        Py_CLEAR(self);
    return self;
}

static PyObject *fluid_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"capacities", NULL};
    PyObject *capacities;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", words, &capacities))
        return NULL;
    return (PyObject *)make_fluid(type, capacities);
}

static PyObject *fluid_add(Fluid *self, PyObject *capacities) { return none_unless(add_resources(self, capacities)); }

static PyObject *fluid_remove(Fluid *self, PyObject *names) { return none_unless(remove_resources(self, names)); }

static PyObject *fluid_start(Fluid *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"t", "key", "amount", "resources", "limit", "weight", NULL};
    PyObject *key, *resources;
    double t, amount, limit = INFINITY, weight = 1.0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "dOdO!|dd", words, &t, &key, &amount, &PyTuple_Type, &resources,
                                     &limit, &weight))
        return NULL;
    return none_unless(!start_activity(self, t, key, amount, resources, limit, weight));
}

static PyObject *fluid_stop(Fluid *self, PyObject *args) {
    PyObject *key;
    double t;
    if (!PyArg_ParseTuple(args, "dO", &t, &key) || advance(self, t))
        return NULL;
    Activity *one = find_by_key(self, key);
    if (!one)
        return NULL;
    double left = abandon(self, t, one);
    return discard(self, one) ? NULL : PyFloat_FromDouble(left);
}

static PyObject *fluid_left(Fluid *self, PyObject *args) {
    PyObject *key;
    double t;
    Activity *one = NULL;
    if (PyArg_ParseTuple(args, "dO", &t, &key))
        one = find_by_key(self, key);
    return one ? PyFloat_FromDouble(left_of(one, t)) : NULL;
}

static PyObject *fluid_rate(Fluid *self, PyObject *key) {
    Activity *one = find_by_key(self, key);
    if (!one)
        return NULL;
    if (one->running)
        compute_rates(self);
    return PyFloat_FromDouble(one->running ? one->rate : 0.0);
}

static PyObject *fluid_set_capacity(Fluid *self, PyObject *args) {
    PyObject *name;
    double t, capacity;
    if (!PyArg_ParseTuple(args, "dOd", &t, &name, &capacity))
        return NULL;
    return none_unless(change_capacity(self, t, name, capacity));
}

static PyObject *fluid_set_quota(Fluid *self, PyObject *args) {
    PyObject *name, *quota;
    double t;
    if (!PyArg_ParseTuple(args, "dOO", &t, &name, &quota))
        return NULL;
    return none_unless(change_quota(self, t, name, quota));
}

static PyObject *fluid_next_s(Fluid *self, void *unused) { return PyFloat_FromDouble(next_end(self)); }

static PyObject *fluid_completed(Fluid *self, PyObject *when) {
    double t = PyFloat_AsDouble(when);
    if (PyErr_Occurred() || advance(self, t))
        return NULL;
    sort_ended(self);
    PyObject *keys = PyList_New(self->num_ended);
    if (!keys)
        return NULL;
    for (Py_ssize_t i = 0; i < self->num_ended; i++)
        PyList_SET_ITEM(keys, i, Py_NewRef(self->ended[i]->key));
    Py_ssize_t count = self->num_ended;
    self->num_ended = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (discard(self, self->ended[i])) {
            Py_DECREF(keys);
            return NULL;
        }
    return keys;
}

static PyMethodDef fluid_methods[] = {
    {"add", (PyCFunction)fluid_add, METH_O, "More resources, which nobody uses yet."},
    {"remove", (PyCFunction)fluid_remove, METH_O, "Forget resources that nobody uses any more."},
    {"start", (PyCFunction)(void (*)(void))fluid_start, METH_VARARGS | METH_KEYWORDS, "Begin an activity."},
    {"stop", (PyCFunction)fluid_stop, METH_VARARGS, "Abandon an activity; returns how much was left."},
    {"left", (PyCFunction)fluid_left, METH_VARARGS, "How much of an activity's amount is left."},
    {"rate", (PyCFunction)fluid_rate, METH_O, "An activity's current amount per second."},
    {"set_capacity", (PyCFunction)fluid_set_capacity, METH_VARARGS, "Change what a resource gives per second."},
    {"set_quota", (PyCFunction)fluid_set_quota, METH_VARARGS, "Limit a resource's average, or no longer."},
    {"completed", (PyCFunction)fluid_completed, METH_O, "Remove the activities that are complete; their keys."},
    {NULL}};

static PyGetSetDef fluid_getset[] = {{"next_s", (getter)fluid_next_s, NULL, "When the next end is."}, {NULL}};

static Kind FluidKind = {
    .type = {KIND(Fluid, "Activities that share resources max-min fairly."),
             .tp_new = fluid_new,
             .tp_clear = fluid_clear,
             .tp_methods = fluid_methods,
             .tp_getset = fluid_getset},
    REFS(offsetof(Fluid, names), offsetof(Fluid, sets), offsetof(Fluid, keys)),
    .visit = fluid_visit,
    .release = fluid_release,
};
