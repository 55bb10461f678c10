/* The Python type of sharing.h, with the interface of its twin. */

static int sharing_traverse(Sharing *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    Py_VISIT(self->fluid);
    Py_VISIT(self->names);
    Py_VISIT(self->sets);
    Py_VISIT(self->settle);
    Py_VISIT(self->complete);
    return 0;
}

static int sharing_clear(Sharing *self) { return self->fluid ? fluid_clear(self->fluid) : 0; }

static void sharing_dealloc(Sharing *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->fluid);
    while (self->accounts) {
        Account *one = self->accounts;
        self->accounts = one->older;
        PyMem_Free(one);
    }
    Py_CLEAR(self->names);
    Py_CLEAR(self->sets);
    Py_CLEAR(self->settle);
    Py_CLEAR(self->complete);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *sharing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"clock", "capacities", NULL};
    PyObject *clock, *capacities;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O", words, &ClockType, &clock, &capacities))
        return NULL;
    Sharing *self = (Sharing *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->clock = (Clock *)Py_NewRef(clock);
    self->due_s = INFINITY;
    self->fluid = make_fluid(&FluidType, capacities);
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

static PyTypeObject SharingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Sharing",
    .tp_basicsize = sizeof(Sharing),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Shared resources that follow a clock: the twin of runtime.virtual.machines.sharing.Sharing.",
    .tp_new = sharing_new,
    .tp_traverse = (traverseproc)sharing_traverse,
    .tp_clear = (inquiry)sharing_clear,
    .tp_dealloc = (destructor)sharing_dealloc,
    .tp_methods = sharing_methods,
    .tp_members = sharing_members,
};
