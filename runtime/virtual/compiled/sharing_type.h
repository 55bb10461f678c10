/* The Python type of sharing.h; _hosts.pyi is its interface. */

static int sharing_clear(PyObject *self) {
    Fluid *fluid = ((Sharing *)self)->fluid;
    return fluid ? fluid_clear((PyObject *)fluid) : 0;
}

static void sharing_release(PyObject *self) {
    for (Account *one; (one = ((Sharing *)self)->accounts);) {
        ((Sharing *)self)->accounts = one->older;
        PyMem_Free(one);
    }
}

static PyObject *sharing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"clock", "capacities", NULL};
    PyObject *clock, *capacities;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O", words, &ClockKind.type, &clock, &capacities))
        return NULL;
    Sharing *self = (Sharing *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->clock = (Clock *)Py_NewRef(clock);
    self->due_s = INFINITY;
    self->fluid = make_fluid(&FluidKind.type, capacities);
    self->names = PyDict_New();
    self->sets = PyDict_New();
    self->settle = (PyObject *)make_step(run_settle, self, NULL, NULL, 0.0, 0);
    self->complete = (PyObject *)make_step(run_complete, self, NULL, NULL, 0.0, 0);
    if (!self->fluid || !self->names || !self->sets || !self->settle || !self->complete)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *sharing_add(Sharing *self, PyObject *capacities) {
    return none_unless(add_resources(self->fluid, capacities));
}

static PyObject *sharing_remove(Sharing *self, PyObject *names) {
    return none_unless(remove_resources(self->fluid, names));
}

static PyObject *sharing_start(Sharing *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"key", "amount", "resources", "then", "accounts", "limit", NULL};
    PyObject *key, *resources, *then, *accounts = NULL;
    double amount, limit = INFINITY;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OdO!O|O!$d", words, &key, &amount, &PyTuple_Type, &resources, &then,
                                     &PyTuple_Type, &accounts, &limit))
        return NULL;
    accounts = accounts ? Py_NewRef(accounts) : PyTuple_New(0);
    PyObject *found = accounts ? find_accounts(self, accounts) : NULL;
    int failed = !found || follow(self,
                                  start_activity(self->fluid, self->clock->now, key, amount, resources, limit, 1.0),
                                  then, found);
    Py_XDECREF(accounts);
    return none_unless(failed);
}

static PyObject *sharing_stop(Sharing *self, PyObject *key) {
    Activity *one = address_in(self->fluid->keys, key);
    return none_unless(one ? stop_activity(self, one) : !!PyErr_Occurred());
}

static PyObject *sharing_divide(Sharing *self, PyObject *args) {
    PyObject *name;
    double weight;
    if (!PyArg_ParseTuple(args, "Od", &name, &weight))
        return NULL;
    if (!(weight > 0 && weight < INFINITY))
        return none_unless(refuse("weight=%S: must be finite and more than 0", weight, 0.0));
    Account *account = find_account(self, name);
    return none_unless(!account || divide(self, account, weight));
}

static PyObject *sharing_done(Sharing *self, PyObject *name) {
    Account *account = find_account(self, name);
    return account ? PyFloat_FromDouble(done_by_now(self, account)) : NULL;
}

static PyObject *sharing_set_capacity(Sharing *self, PyObject *args) {
    PyObject *name;
    double capacity;
    if (!PyArg_ParseTuple(args, "Od", &name, &capacity))
        return NULL;
    return none_unless(change_capacity(self->fluid, self->clock->now, name, capacity) || settle_soon(self));
}

static PyObject *sharing_set_quota(Sharing *self, PyObject *args) {
    PyObject *name, *quota;
    if (!PyArg_ParseTuple(args, "OO", &name, &quota))
        return NULL;
    return none_unless(change_quota(self->fluid, self->clock->now, name, quota) || settle_soon(self));
}

static PyMethodDef sharing_methods[] = {
    {"add", (PyCFunction)sharing_add, METH_O, "Add resources with their capacities."},
    {"remove", (PyCFunction)sharing_remove, METH_O, "Forget resources that nobody uses any more."},
    {"start", (PyCFunction)(void (*)(void))sharing_start, METH_VARARGS | METH_KEYWORDS, "Begin an activity now."},
    {"stop", (PyCFunction)sharing_stop, METH_O, "End an activity early, if it is in progress."},
    {"divide", (PyCFunction)sharing_divide, METH_VARARGS, "Give the activities of an account a weight together."},
    {"done", (PyCFunction)sharing_done, METH_O, "The sum of all that was booked on an account."},
    {"set_capacity", (PyCFunction)sharing_set_capacity, METH_VARARGS, "Change a capacity from now on."},
    {"set_quota", (PyCFunction)sharing_set_quota, METH_VARARGS, "Replace a resource's quota from now on."},
    {NULL}};

static PyMemberDef sharing_members[] = {{"clock", T_OBJECT, offsetof(Sharing, clock), READONLY, "What it follows."},
                                        {NULL}};

static Kind SharingKind = {
    .type = {KIND(Sharing, "Shared resources that follow a clock."),
             .tp_new = sharing_new,
             .tp_clear = sharing_clear,
             .tp_methods = sharing_methods,
             .tp_members = sharing_members},
    REFS(offsetof(Sharing, clock), offsetof(Sharing, fluid), offsetof(Sharing, names), offsetof(Sharing, sets),
         offsetof(Sharing, settle), offsetof(Sharing, complete)),
    .release = sharing_release,
};
