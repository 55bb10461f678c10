/* The strategies' vocabulary: events are made, commands are read, without a call of Python code. */

static PyObject *Grad_, *Timings_, *Arrived_, *Woke_, *Compute_, *Apply_, *Drop_, *Wake_;
static PyObject *GRAD_NAMES, *TIMINGS_NAMES, *HOST_TIMINGS_NAMES, *ARRIVED_NAMES, *WOKE_NAMES, *EMPTY_TUPLE, *ZERO;

/* Where fields lie in commands; found once, from the descriptors of their slots. */
static Py_ssize_t compute_worker, compute_samples, compute_accum, compute_parts, compute_within;
static Py_ssize_t apply_grads, apply_weights, apply_scale, apply_measure, apply_children;
static Py_ssize_t drop_grads, drop_requeue, wake_at, wake_tag, grad_worker;

static inline PyObject *field(PyObject *of, Py_ssize_t offset) { return *(PyObject **)((char *)of + offset); }

static int find_field(PyObject *type, const char *name, Py_ssize_t *offset) {
    PyObject *found = PyObject_GetAttrString(type, name);
    if (!found)
        return -1;
    int good = Py_IS_TYPE(found, &PyMemberDescr_Type);
    if (good)
        *offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else
        PyErr_Format(PyExc_TypeError, "%s is no slot", name);
    Py_DECREF(found);
    return good ? 0 : -1;
}

/* Fails if a type has other fields than this loop was written for: without it Python does all, and nothing is lost.
 *
 * Of Timings those that are not in WORK_TIMES keep their defaults. */
static int has_fields(PyObject *type, Py_ssize_t count) {
    PyObject *fields = PyObject_GetAttrString(type, "__struct_fields__");
    Py_ssize_t found = fields ? PyObject_Length(fields) : -1;
    Py_XDECREF(fields);
    if (found >= 0 && found != count)
        PyErr_Format(PyExc_ImportError, "%R has %zd fields, and the event loop knows %zd", type, found, count);
    return found == count;
}

#ifndef HOUSE
#define HOUSE "" /* where our modules are; the build of the package says "stragglab." */
#endif

static int learn_vocabulary(void) {
    PyObject *module = PyImport_ImportModule(HOUSE "strategies.protocol");
    if (!module)
        return -1;
    struct { const char *name; PyObject **type; Py_ssize_t fields; } types[] = {
        {"Grad", &Grad_, 12},      {"Timings", &Timings_, -1}, {"Arrived", &Arrived_, 5}, {"Woke", &Woke_, 2},
        {"Compute", &Compute_, 6}, {"Apply", &Apply_, 5},     {"Drop", &Drop_, 2},       {"Wake", &Wake_, 2}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!(*types[i].type = PyObject_GetAttrString(module, types[i].name)) ||
            (types[i].fields >= 0 && !has_fields(*types[i].type, types[i].fields)))
            return -1;
    Py_DECREF(module);
    struct { PyObject *type; const char *name; Py_ssize_t *offset; } fields[] = {
        {Compute_, "worker", &compute_worker}, {Compute_, "num_samples", &compute_samples},
        {Compute_, "accum", &compute_accum},   {Compute_, "parts", &compute_parts},
        {Compute_, "within_s", &compute_within},
        {Apply_, "grads", &apply_grads},       {Apply_, "weights", &apply_weights},
        {Apply_, "lr_scale", &apply_scale},    {Apply_, "measure", &apply_measure},
        {Apply_, "children", &apply_children}, {Drop_, "grads", &drop_grads},
        {Drop_, "requeue", &drop_requeue},     {Wake_, "at_s", &wake_at},
        {Wake_, "tag", &wake_tag},             {Grad_, "worker", &grad_worker}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (find_field(fields[i].type, fields[i].name, fields[i].offset))
            return -1;
    GRAD_NAMES = NAMES("id", "worker", "incarnation", "iteration", "version", "samples", "assigned_samples");
    HOST_TIMINGS_NAMES = NAMES(WORK_TIMES(NAME));
    TIMINGS_NAMES = HOST_TIMINGS_NAMES ? PyTuple_GetSlice(HOST_TIMINGS_NAMES, 0, NUM_TIMES - 1) : NULL;
    ARRIVED_NAMES = NAMES("t", "grad", "timings");
    WOKE_NAMES = NAMES("t", "tag");
    EMPTY_TUPLE = PyTuple_New(0);
    ZERO = PyFloat_FromDouble(0.0);
    return GRAD_NAMES && TIMINGS_NAMES && HOST_TIMINGS_NAMES && ARRIVED_NAMES && WOKE_NAMES && EMPTY_TUPLE && ZERO ? 0 : -1;
}

/* An object of a type of the vocabulary; takes over the references to its values, any of which may have failed. */
static PyObject *make(PyObject *type, PyObject **values, PyObject *names) {
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    PyObject *found = NULL;
    int good = 1;
    for (Py_ssize_t i = 0; i < count; i++)
        good = good && values[i];
    if (good)
        found = PyObject_Vectorcall(type, values, 0, names);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(values[i]);
    return found;
}

static PyObject *seconds(double s) { return s == 0.0 ? Py_NewRef(ZERO) : PyFloat_FromDouble(s); }

static PyObject *make_grad(const Loop *l, const Work *work) {
    PyObject *values[] = {PyLong_FromLongLong(work->id),
                          Py_NewRef(l->numbers[work->worker]),
                          Py_NewRef(PyList_GET_ITEM(l->incarnations, work->worker)),
                          PyLong_FromLongLong(work->iteration),
                          PyLong_FromLongLong(work->version),
                          PyLong_FromLongLong(work->samples),
                          PyLong_FromLongLong(work->assigned_samples)};
    return make(Grad_, values, GRAD_NAMES);
}

static PyObject *make_timings(const Loop *l, const Work *work) {
#define VALUE(name) seconds(work->name),
    PyObject *values[] = {WORK_TIMES(VALUE)};
#undef VALUE
    if (!l->hosts)
        Py_DECREF(values[NUM_TIMES - 1]); /* cpu_s, which stays unknown */
    return make(Timings_, values, l->hosts ? HOST_TIMINGS_NAMES : TIMINGS_NAMES);
}
